"""Cases for changes of type."""

VALUES = [
    -3.7,
    -2.5,
    -0.5,
    0.0,
    0.5,
    2.5,
    127.9,
    128.0,
    255.9,
    300.5,
    3e9,
    1e10,
    float("nan"),
    float("inf"),
    -float("inf"),
]
TYPES = ("float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool")

CASES = [
    {
        "op": "Cast",
        "attrs": {"dtype": to},
        "inputs": [{"shape": [15], "dtype": dtype, "values": VALUES}],
    }
    for to in TYPES
    for dtype in ("float32", "float64")
]
CASES += [
    {
        "op": "Cast",
        "attrs": {"dtype": to},
        "inputs": [{"shape": [3], "dtype": dtype, "values": [1, 0, 1]}],
    }
    for to in TYPES
    for dtype in ("float16", "bool", "uint8")
]
CASES += [
    {
        "op": "Cast",
        "attrs": {"dtype": to},
        "inputs": [{"shape": [4], "dtype": "int32", "values": [-1, 300, 0, 70000]}],
    }
    for to in TYPES
]
CASES += [
    {"op": "amp_cast", "attrs": {"dtype": to}, "inputs": [{"shape": [4], "dtype": dtype}]}
    for to in ("float16", "float32")
    for dtype in ("float32", "int32")
]
CASES += [
    {
        "op": "amp_multicast",
        "attrs": {"num_outputs": "2", "cast_narrow": n},
        "inputs": [{"shape": [4]}, {"shape": [2]}],
    }
    for n in ("True", "False")
]
CASES += [
    {
        "op": op,
        "attrs": {"dtype": dtype},
        "inputs": [
            {"shape": [7], "values": [-1.6, 2.5, 3.5, 300, -200, float("nan"), 3e9], "dtype": given}
        ],
    }
    for op in ("amp_cast", "Cast")
    for dtype in ("int8", "uint8", "int32")
    for given in ("float32", "float16")
]
