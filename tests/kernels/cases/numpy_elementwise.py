"""Cases for the numpy interface's elementwise operators."""

UNARY = (
    "arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees exp expm1 fix floor log log10 log1p log2 "
    "negative radians reciprocal rint sign sin sinh sqrt square tan trunc absolute"
).split()
TESTS = "isfinite isinf isnan isneginf isposinf logical_not".split()
ARITHMETIC = "add subtract multiply mod power true_divide".split()
COMPARISONS = "equal greater greater_equal less less_equal not_equal".split()
INTEGERS = "bitwise_and bitwise_or bitwise_xor lcm".split()
VALUES = [-2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 3.5, float("nan"), float("inf"), -float("inf")]
WHOLE = [-2, -1, 0, 1, 2, 5]


def case(op, attrs, *inputs):
    return {"op": op, "attrs": attrs, "inputs": list(inputs)}


def array(shape, dtype="float32"):
    return {"shape": shape, "dtype": dtype, "low": 1, "high": 6}


CASES = [
    case("_npi_" + op, {}, {"shape": [11], "dtype": d, "values": VALUES})
    for op in UNARY + TESTS
    for d in ("float32", "float64")
]
CASES += [
    case("_npi_" + op, {}, {"shape": [6], "dtype": "int32", "values": WHOLE})
    for op in UNARY + TESTS
]
CASES += [
    case(op, {}, {"shape": [8], "values": VALUES[:8]})
    for op in ("_npi_tanh", "_npx_relu", "_npx_sigmoid")
]
CASES += [
    case("_npi_" + op, {}, array([2, 3], a), array([3], b))
    for op in ARITHMETIC
    for a, b in (
        ("float32", "float32"),
        ("float64", "float64"),
        ("int32", "int32"),
        ("float32", "int32"),
        ("int64", "float32"),
    )
]
CASES += [
    case("_npi_" + op, {}, array([2, 3], d), array([2, 1], d))
    for op in COMPARISONS
    for d in ("float32", "int32")
]
CASES += [
    case("_npi_" + op, {}, array([2, 3], d), array([3], d))
    for op in ("arctan2", "hypot")
    for d in ("float32", "float64")
]
CASES += [
    case("_npi_" + op, {}, array([2, 3], d), array([3], d))
    for op in INTEGERS
    for d in ("int32", "int64")
]
CASES += [
    case("_npi_" + op + "_scalar", {"scalar": s, "is_int": n}, array([2, 3], d))
    for op in [*ARITHMETIC, "rsubtract", "rmod", "rpower", "rtrue_divide", *COMPARISONS]
    for s, n in (("2.0", "False"), ("2", "True"))
    for d in ("float32", "int32")
]
CASES += [case("_npi_where", {}, array([2, 1], "int32"), array([2, 3]), array([3]))]
CASES += [
    {
        "op": f"_npi_{op}_scalar",
        "attrs": {"scalar": number, "is_int": whole},
        "inputs": [{"shape": [2], "dtype": dtype, "values": [1, 0]}],
    }
    for op in ("equal", "less", "greater_equal")
    for number in ("2", "0.5")
    for whole in ("True", "False")
    for dtype in ("bool", "int32")
]
