"""Cases for linear algebra on the last two axes. Plain data."""

from tests.kernels.rounding import sum_rounding

# Symmetric and positive: A + A^T + 6 on the diagonal, written out.
POSITIVE = [
    7.0,
    1.0,
    0.5,
    1.0,
    6.0,
    -2.0,
    0.5,
    -2.0,
    5.0,
    8.0,
    -1.0,
    2.0,
    -1.0,
    9.0,
    0.25,
    2.0,
    0.25,
    4.0,
]
SPREAD = {"shape": [2, 3, 3], "values": POSITIVE}
SPREAD64 = dict(SPREAD, dtype="float64")
ONE = {"shape": [3, 3], "values": POSITIVE[:9]}


def case(op, attrs, *inputs, **more):
    found = dict({"op": "_linalg_" + op, "attrs": attrs, "inputs": list(inputs)}, **more)
    dtype = inputs[0].get("dtype", "float32")
    return dict(found, atol=sum_rounding(*SUMS[op], dtype=dtype)) if op in SUMS else found


# Terms, and their size: numbers of POSITIVE are up to 9, those of its inverse below 1; 4 x 4
# determinants have 24 products.
SUMS = {
    "det": (24,),
    "slogdet": (24,),
    "inverse": (3,),
    "potrf": (3,),
    "potri": (3,),
    "gelqf": (5,),
    "syevd": (3, 9.0),
}
SUMS.update(syrk=(4,), trmm=(3, 18.0), trsm=(3, 2.0))


CASES = [
    case(op, {}, x, outputs=1)
    for op in ("det", "sumlogdiag", "inverse")
    for x in (SPREAD, SPREAD64, ONE)
]
CASES += [
    case("det", {}, {"shape": [2, 4, 4]}, outputs=1),
    case("slogdet", {}, {"shape": [3, 4, 4]}, outputs=2),
]
CASES += [
    case(op, {"lower": lower}, x)
    for op in ("potrf", "potri")
    for lower in ("True", "False")
    for x in (SPREAD, SPREAD64)
]
CASES += [case("gelqf", {}, {"shape": shape}) for shape in ([3, 5], [2, 3, 3])]
CASES += [case("syevd", {}, x) for x in (SPREAD, SPREAD64)]
CASES += [
    case("syrk", {"transpose": flag, "alpha": "0.5"}, {"shape": [2, 3, 4]})
    for flag in ("True", "False")
]
CASES += [
    case(
        op,
        {"transpose": flag, "rightside": side, "lower": lower, "alpha": "2"},
        SPREAD,
        {"shape": shape},
    )
    for op in ("trmm", "trsm")
    for flag in ("True", "False")
    for side, shape in (("True", [2, 4, 3]), ("False", [2, 3, 4]))
    for lower in ("True", "False")
]
CASES += [case("extractdiag", {"offset": k}, {"shape": [2, 4, 4]}) for k in ("0", "1", "-2")]
CASES += [case("makediag", {"offset": k}, {"shape": [2, 3]}) for k in ("0", "1", "-2")]
CASES += [
    case("extracttrian", {"offset": k, "lower": lower}, {"shape": [2, 4, 4]})
    for k in ("0", "1", "-2")
    for lower in ("True", "False")
]
CASES += [
    case("maketrian", {"offset": k, "lower": lower}, {"shape": [2, 6]})
    for k in ("0", "1", "-2")
    for lower in ("True", "False")
]
