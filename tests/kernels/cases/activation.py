"""Cases for the activations. Plain data: read by the test and, under Python 3.8, by the script that asks MXNet."""

CASES = [
    {"op": "Activation", "attrs": {"act_type": kind}, "inputs": [{"shape": [2, 3, 4], "dtype": dtype}]}
    for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    for dtype in ("float32", "float64")
]
CASES += [
    {"op": op, "attrs": {}, "inputs": [{"shape": [2, 5], "scale": 4.0}]} for op in ("relu", "sigmoid", "tanh", "softsign")
]
