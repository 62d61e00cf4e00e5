"""Cases for products and linear algebra of the numpy interface. Plain data."""

from tests.kernels.rounding import sum_rounding, with_atol

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


def case(op, attrs, *shapes):
    inputs = [shape if isinstance(shape, dict) else {"shape": list(shape)} for shape in shapes]
    return {"op": op, "attrs": attrs, "inputs": inputs}


CASES = [
    case("_np_dot", {}, a, b)
    for a, b in (((2, 3), (3, 4)), ((2, 3), (3,)), ((2, 2, 3), (4, 3, 5)), ((3,), (3, 2)))
]
CASES += [
    case("_npi_matmul", {}, a, b)
    for a, b in (
        ((2, 3), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 2, 3), (3, 5)),
        ((2, 1, 2, 3), (4, 3, 5)),
    )
]
CASES += [
    case("_npi_tensordot", {"a_axes_summed": a, "b_axes_summed": b}, (2, 3, 4), (4, 3, 5))
    for a, b in (("(1, 2)", "(1, 0)"), ("(2,)", "(0,)"))
]
CASES += [case("_npi_tensordot_int_axes", {"axes": n}, (2, 3, 4), (3, 4, 5)) for n in ("2",)]
CASES += [case("_npi_tensordot_int_axes", {"axes": n}, (2, 3), (3, 5)) for n in ("1", "0")]
CASES += [
    case("_npi_einsum", {"num_args": str(len(shapes)), "subscripts": text}, *shapes)
    for text, *shapes in (
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
        ("ij->ji", (2, 3)),
        ("ij,j,kj->ik", (2, 3), (3,), (4, 3)),
    )
]
CASES += [case("_npi_cholesky", {"lower": flag}, SPREAD) for flag in ("True", "False")]
CASES += [case("_npi_solve", {}, SPREAD, shape) for shape in ((2, 3, 4), (2, 3))]
CASES += [
    case("_npi_pinv_scalar_rcond", {}, (2, 3, 4)),
    case("_npi_pinv", {}, (2, 3, 4), {"shape": [2], "value": 0.01}),
]
CASES += [
    case("_npi_tensorinv", {"ind": "1"}, (6, 2, 3)),
    case("_npi_tensorsolve", {}, (2, 3, 6), (2, 3)),
]
CASES += [
    case(op, {"UPLO": flag}, SPREAD) for op in ("_npi_eigvalsh", "_npi_eigh") for flag in ("L", "U")
]
CASES += [case("_npi_svd", {}, (2, 3, 4))]
TURNED = {"shape": [2, 2, 2], "values": [2.0, 1.0, 0.5, 3.0, 4.0, -1.0, 0.25, 1.0]}
CASES += [case(op, {}, TURNED) for op in ("_npi_eig", "_npi_eigvals")]
CASES += [
    case("_npi_tensorsolve", {"a_axes": axes}, (2, 6, 3), (6,)) for axes in ("(0, 2)", "(-3, -1)")
]
CASES += [
    {"op": op, "attrs": {}, "inputs": [{"shape": [2, 2], "dtype": "int32", "values": [4, 1, 1, 3]}]}
    for op in ("_npi_eig", "_npi_eigvals", "_npi_eigh", "_npi_eigvalsh")
]
CASES += [
    {
        "op": op,
        "attrs": {},
        "inputs": [
            {"shape": [2, 2], "dtype": "int32", "values": [4, 1, 1, 3]},
            {"shape": [2], "dtype": kind, "values": [1, 2]},
        ],
    }
    for op in ("_npi_solve", "_npi_tensorsolve")
    for kind in ("int32", "float32")
]


def rounding(case):
    """Products sum up to 12 numbers; a decomposition is off by rounding of its largest numbers, which are below 10."""
    if case["inputs"][0].get("dtype") == "int32":  # computed in float64
        return None
    return sum_rounding(
        12 if case["op"].endswith(("dot", "matmul", "einsum", "axes")) else 4,
        ROUNDED.get(case["op"], 1.0),
    )


ROUNDED = dict.fromkeys(
    (
        "_npi_eig",
        "_npi_eigh",
        "_npi_eigvals",
        "_npi_eigvalsh",
        "_npi_tensorinv",
        "_npi_tensorsolve",
    ),
    10.0,
)
ROUNDED.update(_npi_pinv=4.0, _npi_pinv_scalar_rcond=4.0)
CASES = with_atol(CASES, rounding)
