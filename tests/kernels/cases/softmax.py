"""Cases for the softmax family."""

LENGTHS = {"shape": [2, 4], "dtype": "int32", "low": 0, "high": 4}

CASES = [
    {"op": op, "attrs": attrs, "inputs": [{"shape": [2, 3, 4], "dtype": dtype, "scale": 3.0}]}
    for op in ("softmax", "log_softmax", "softmin")
    for attrs in ({}, {"axis": "1"}, {"axis": "0", "temperature": "2.5"}, {"temperature": "0.5"}, {"axis": "-2"})
    for dtype in ("float32", "float64", "float16")
]
CASES += [
    {"op": op, "attrs": {"dtype": to}, "inputs": [{"shape": [3, 4], "dtype": dtype}], "tolerance": 4e-3}
    for op in ("softmax", "log_softmax", "softmin")
    for to, dtype in (("float64", "float32"), ("float32", "float16"))
]
CASES += [
    {"op": op, "attrs": {}, "inputs": [{"shape": [2, 5], "scale": 200.0}]} for op in ("softmax", "log_softmax", "softmin")
]
CASES += [
    {"op": "softmax", "attrs": {"use_length": "True", "axis": "1"}, "inputs": [{"shape": [2, 3, 4], "dtype": d}, LENGTHS]}
    for d in ("float32", "float64")
]
CASES += [
    {
        "op": "softmax",
        "attrs": {"use_length": "True", "temperature": "2"},
        "inputs": [{"shape": [3, 4]}, {"shape": [3], "dtype": "int64", "values": [0, 2, 4]}],
    }
]
CASES += [
    {"op": "SoftmaxActivation", "attrs": attrs, "inputs": [{"shape": shape, "scale": 3.0}]}
    for attrs, shape in (
        ({}, [3, 4]),
        ({"mode": "instance"}, [2, 5]),
        ({"mode": "channel"}, [2, 3, 4]),
        ({"mode": "channel"}, [2, 3, 2, 2]),
    )
]
CASES += [
    {"op": op, "attrs": attrs, "inputs": [{"shape": [2, 5], "scale": 3.0, "dtype": dtype}]}
    for op in ("softmax", "log_softmax", "softmin")
    for attrs in ({"temperature": "-1.0"}, {"temperature": "0.0"}, {"temperature": "-0.5", "axis": "0"})
    for dtype in ("float32", "float64")
]
CASES += [
    {"op": "SoftmaxActivation", "attrs": attrs, "inputs": [{"shape": shape}]}
    for attrs in ({}, {"mode": "channel"})
    for shape in ([2, 6, 1], [2, 3, 4, 2])
]
