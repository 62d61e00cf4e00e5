"""Cases for the mathematics on one array."""

ROUNDINGS = "ceil fix floor rint round trunc _contrib_round_ste sign _contrib_sign_ste abs negative square logical_not"
REAL = "cos degrees erf exp expm1 radians sin sinh cosh tan arctan arcsinh cbrt rcbrt reciprocal"
POSITIVE = "log log10 log1p log2 sqrt rsqrt gamma gammaln arccosh"
UNIT = "arccos arcsin arctanh erfinv"
COPIES = "_copy BlockGrad make_loss zeros_like ones_like _contrib_gradientmultiplier"
SPECIAL = [
    -3.7,
    -2.5,
    -1.5,
    -0.5,
    0.0,
    0.5,
    1.5,
    2.5,
    300.5,
    1e10,
    float("nan"),
    float("inf"),
    -float("inf"),
    -1.0,
    1.0,
]
ALL = " ".join((ROUNDINGS, REAL, POSITIVE, UNIT, COPIES)).split()


def one(op, **spec):
    return {"op": op, "attrs": {}, "inputs": [spec]}


CASES = [
    one(op, shape=[2, 7], dtype=d, scale=3.0)
    for op in (ROUNDINGS + " " + REAL).split()
    for d in ("float32", "float64")
]
CASES += [
    one(op, shape=[2, 7], dtype=d, scale=0.2, shift=1.9)
    for op in POSITIVE.split()
    for d in ("float32", "float64")
]
CASES += [
    one(op, shape=[2, 7], dtype=d, scale=0.3) for op in UNIT.split() for d in ("float32", "float64")
]
CASES += [one(op, shape=[15], values=SPECIAL) for op in ALL]
CASES += [one(op, shape=[5], dtype="float16", values=[0.25, 1.0, 0.5, 0.75, 0.0]) for op in ALL]
CASES += [one(op, shape=[6], dtype="int32", values=[-2, -1, 0, 1, 2, 5]) for op in ALL]
CASES += [one(op, shape=[6], dtype="uint8", values=[0, 1, 2, 3, 200, 255]) for op in ALL]
CASES += [one(op, shape=[3], dtype="int64", values=[1, 4, 7]) for op in ALL]
CASES += [
    one(op, shape=[2, 1, 3], dtype=d, value=1)
    for op in ("shape_array", "size_array")
    for d in ("float32", "uint8")
]
CASES += [
    {
        "op": "clip",
        "attrs": {"a_min": low, "a_max": high},
        "inputs": [{"shape": [3, 5], "dtype": dtype, "scale": 5.0}],
    }
    for low, high in (("-1.5", "2.7"), ("0", "6"), ("-inf", "1"))
    for dtype in ("float32", "float64", "float16", "int32", "int8")
]
CASES += [
    {
        "op": "hard_sigmoid",
        "attrs": attrs,
        "inputs": [{"shape": [3, 5], "dtype": dtype, "scale": 3.0}],
    }
    for attrs in ({}, {"alpha": "0.5", "beta": "0.1"})
    for dtype in ("float32", "float64", "float16")
]
CASES += [
    {"op": "smooth_l1", "attrs": attrs, "inputs": [{"shape": [3, 5], "dtype": dtype, "scale": 2.0}]}
    for attrs in ({}, {"scalar": "1.0"}, {"scalar": "2.5"})
    for dtype in ("float32", "float64", "float16", "int32")
]
CASES += [
    {
        "op": "_contrib_quadratic",
        "attrs": {"a": "2", "b": "-3", "c": "0.5"},
        "inputs": [{"shape": [3], "dtype": dtype}],
    }
    for dtype in ("float32", "float64")
]
CASES += [
    {
        "op": "clip",
        "attrs": {"a_min": "2", "a_max": "1"},
        "inputs": [{"shape": [6], "dtype": dtype, "values": [0, 1, 1.5, 2, 3, 4]}],
    }
    for dtype in ("float32", "float64", "int32")
]
CASES += [
    {
        "op": "clip",
        "attrs": {"a_min": "0", "a_max": "2"},
        "inputs": [{"shape": [4], "values": [float("nan"), float("inf"), -1, 1]}],
    }
]
