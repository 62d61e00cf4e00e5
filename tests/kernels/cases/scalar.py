"""Cases for the operators on an array and a number."""

OPS = ["_" + n + "_scalar" for n in "plus minus mul div mod power hypot maximum minimum".split()]
OPS += ["_" + n + "_scalar" for n in "rminus rdiv rmod rpower".split()]
OPS += [
    "_" + n + "_scalar" for n in "equal not_equal greater greater_equal lesser lesser_equal".split()
]
OPS += ["_" + n + "_scalar" for n in "logical_and logical_or logical_xor".split()]
DATA = [
    ("float32", [-7.5, 7.5, 0.0, 1.0, float("nan"), 2.5]),
    ("float64", [-7.5, 7.5, 0.0, 1.0, float("inf"), 2.5]),
    ("float16", [-7.5, 7.5, 0.0, 1.0, -2.0, 2.5]),
    ("int32", [-7, 7, 5, 4, 3, -3]),
    ("uint8", [1, 2, 3, 7, 200, 255]),
]


def one(op, attrs, dtype, values):
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [{"shape": [len(values)], "dtype": dtype, "values": values}],
    }


CASES = [one(op, {"scalar": s}, d, v) for op in OPS for s in ("2.5", "-2") for d, v in DATA]
CASES += [one(op, {}, "float32", [1.0, 2.0, -0.5]) for op in OPS]
CASES += [one(op, {"scalar": "0"}, "float32", [-1.0, 0.0, 4.0]) for op in OPS]
CASES += [
    one(op, {"scalar": "1.5", "is_int": "False"}, d, [1, 3, 2])
    for op in OPS
    for d in ("int32", "float32")
]
CASES += [
    one(op, {"scalar": "1"}, "bool", [1, 0])
    for op in ("_plus_scalar", "_equal_scalar", "_maximum_scalar", "_mul_scalar")
]
CASES += [
    one("_mul_scalar", {"scalar": "1e10"}, "int32", [1, 2]),
    one("_plus_scalar", {"scalar": "300"}, "uint8", [1, 2]),
]
CASES += [
    {
        "op": "_rdiv_scalar",
        "attrs": {"scalar": number},
        "inputs": [{"shape": [4], "dtype": dtype, "values": [0, 1, 2, 3]}],
    }
    for number in ("1", "0", "-2.5")
    for dtype in ("int32", "int64", "int8", "uint8")
]
