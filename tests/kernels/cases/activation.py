"""Cases for the activations. Plain data: read by the test and, under Python 3.8, by the script that asks MXNet."""

CASES = [
    {
        "op": "Activation",
        "attrs": {"act_type": kind},
        "inputs": [{"shape": [2, 3, 4], "dtype": dtype}],
    }
    for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    for dtype in ("float32", "float64")
]
CASES += [
    {"op": op, "attrs": {}, "inputs": [{"shape": [2, 5], "scale": 4.0}]}
    for op in ("relu", "sigmoid", "tanh", "softsign")
]
CASES += [
    {"op": op, "attrs": {}, "inputs": [{"shape": [2, 5], "dtype": dtype, "low": low, "high": 9}]}
    for op in ("relu", "sigmoid", "tanh", "softsign")
    for dtype, low in (("int32", -8), ("int64", -8), ("int8", -8), ("uint8", 0))
]
CASES += [
    {
        "op": op,
        "attrs": {},
        "inputs": [
            {
                "shape": [5],
                "dtype": dtype,
                "values": [float("nan"), float("inf"), float("-inf"), 0, 2],
            }
        ],
    }
    for op in ("relu", "softsign")
    for dtype in ("float32", "float64")
]
