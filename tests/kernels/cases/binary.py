"""Cases for the operators on two arrays and on many."""

NAMES = "mod power hypot maximum minimum equal not_equal greater greater_equal lesser lesser_equal"
LOGICAL = "logical_and logical_or logical_xor"
SAME = ["elemwise_" + n for n in "add sub mul div".split()] + [
    "_" + n for n in (NAMES + " " + LOGICAL).split()
]
SAME += ["_grad_add", "_identity_with_attr_like_rhs"]
BROADCAST = ["broadcast_" + n for n in ("add sub mul div " + NAMES + " " + LOGICAL).split()]
NAN, INF = float("nan"), float("inf")
LEFT = [-7.5, 7.5, NAN, 1.0, 0.0, INF, -2.0, -2.0, 3.0]
RIGHT = [2.0, -2.0, 1.0, 0.0, 0.0, 2.0, 0.5, INF, NAN]


def two(op, left, right):
    return {"op": op, "attrs": {}, "inputs": [left, right]}


CASES = [
    two(op, {"shape": [9], "values": LEFT}, {"shape": [9], "values": RIGHT})
    for op in SAME + BROADCAST
]
CASES += [
    two(op, {"shape": [2, 3], "dtype": d}, {"shape": [2, 3], "dtype": d})
    for op in SAME
    for d in ("float16", "float64")
]
CASES += [
    two(op, {"shape": a, "dtype": d}, {"shape": b, "dtype": d})
    for op in BROADCAST
    for a, b, d in (
        ([2, 3, 4], [1, 3, 1], "float32"),
        ([2, 1], [1, 3], "float64"),
        ([3], [2, 3], "float32"),
        ([1], [2, 3], "float16"),
    )
]
CASES += [
    two(
        op,
        {"shape": [6], "dtype": "int32", "values": [-7, 7, 5, 0, 3, -3]},
        {"shape": [6], "dtype": "int32", "values": [2, -2, 5, 3, -2, -2]},
    )
    for op in SAME + BROADCAST
]
CASES += [
    two(
        op,
        {"shape": [6], "dtype": "uint8", "values": [249, 7, 5, 0, 3, 253]},
        {"shape": [6], "dtype": "uint8", "values": [2, 3, 5, 3, 9, 9]},
    )
    for op in SAME
]
CASES += [
    two(
        op,
        {"shape": [1], "dtype": "int32", "value": 7},
        {"shape": [1], "dtype": "int32", "value": 9},
    )
    for op in SAME
]
CASES += [
    {"op": "add_n", "attrs": {"num_args": str(n)}, "inputs": [{"shape": [2, 3], "dtype": d}] * n}
    for n in (1, 2, 4)
    for d in ("float32", "float64", "int32")
]
