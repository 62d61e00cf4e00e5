"""Cases for selection by index."""

OUTSIDE = [-7, 9, 1.7, 0, -1, 2]
TABLE = {"shape": [3, 4]}


def inside(shape, high, dtype="int32", low=0):
    return {"shape": shape, "dtype": dtype, "low": low, "high": high}


CASES = [
    {
        "op": "Embedding",
        "attrs": {"input_dim": "5", "output_dim": "3", "dtype": dtype},
        "inputs": [
            {"shape": [2, 3], "dtype": index, "values": OUTSIDE},
            {"shape": [5, 3], "dtype": dtype},
        ],
    }
    for dtype in ("float32", "float64", "float16")
    for index in ("float32", "int32", "int64")
]
CASES += [
    {
        "op": "Embedding",
        "attrs": {"input_dim": "3", "output_dim": "4"},
        "inputs": [inside([4], 3), TABLE],
    },
    {
        "op": "Embedding",
        "attrs": {"input_dim": "3", "output_dim": "4", "sparse_grad": "True"},
        "inputs": [inside([2, 2], 3), TABLE],
    },
]
CASES += [
    {
        "op": "take",
        "attrs": {"axis": axis, "mode": mode},
        "inputs": [
            {"shape": [3, 4, 2], "dtype": dtype, "scale": 5.0},
            {"shape": [2, 3], "dtype": index, "values": OUTSIDE},
        ],
    }
    for axis in ("0", "1", "-1")
    for mode in ("clip", "wrap")
    for dtype, index in (("float32", "float32"), ("float64", "int32"), ("int32", "int64"))
]
CASES += [
    {"op": "take", "attrs": {"mode": "raise"}, "inputs": [TABLE, inside([2, 2], 3)]},
    {"op": "take", "attrs": {}, "inputs": [{"shape": [6]}, inside([3], 6, "float32")]},
]
CASES += [
    {
        "op": "batch_take",
        "attrs": {},
        "inputs": [{"shape": [3, 4], "dtype": d}, {"shape": [3], "dtype": "int32", "values": v}],
    }
    for d, v in (("float32", [0, 3, 1]), ("float64", [0, 9, -1]))
]
CASES += [
    {
        "op": "pick",
        "attrs": attrs,
        "inputs": [
            {"shape": [3, 4], "dtype": dtype},
            {"shape": shape, "dtype": index, "values": values},
        ],
    }
    for attrs, shape, values in (
        ({}, [3], [0, 9, -1]),
        ({"mode": "wrap"}, [3], [0, 9, -1]),
        ({"axis": "0"}, [4], [0, 1.7, -5, 2]),
        ({"axis": "1", "keepdims": "True"}, [3, 1], [0, 3, 1]),
        ({"axis": "0", "keepdims": "True", "mode": "clip"}, [4], [0, 3, 1, 2]),
    )
    for dtype, index in (("float32", "float32"), ("float64", "int32"), ("float16", "float32"))
]
CASES += [
    {
        "op": "gather_nd",
        "attrs": {},
        "inputs": [{"shape": [3, 4, 2], "dtype": dtype}, inside(shape, 3, index)],
    }
    for shape in ([1, 3], [2, 3], [3, 2, 2], [2, 1])
    for dtype, index in (("float32", "int64"), ("float64", "int32"), ("int32", "float32"))
    if shape[0] < 3
]
CASES += [
    {
        "op": "gather_nd",
        "attrs": {},
        "inputs": [TABLE, {"shape": [2, 2], "dtype": "int32", "values": [-1, 2, -4, 3]}],
    },
]
CASES += [
    {
        "op": "scatter_nd",
        "attrs": {"shape": "(3, 4)"},
        "inputs": [{"shape": data, "dtype": dtype}, index],
    }
    for data, index in (
        ([2], {"shape": [2, 2], "dtype": "int32", "values": [0, 1, 2, 0]}),
        ([2, 4], {"shape": [1, 2], "dtype": "float32", "values": [2, 0]}),
    )
    for dtype in ("float32", "float64", "int32")
]
CASES += [
    {
        "op": "one_hot",
        "attrs": dict(attrs, depth="4", dtype=dtype),
        "inputs": [{"shape": [2, 3], "dtype": t, "values": OUTSIDE}],
    }
    for attrs in ({}, {"on_value": "2.5", "off_value": "-1.5"})
    for dtype in ("float32", "float64", "float16", "int32", "uint8", "int64")
    for t in ("float32", "int32")
]
CASES += [
    {
        "op": "one_hot",
        "attrs": {"depth": "3", "on_value": "22.4", "off_value": "0.0"},
        "inputs": [inside([4], 3)],
    }
]
CASES += [
    {
        "op": "where",
        "attrs": {},
        "inputs": [
            inside(shape, 2, c),
            {"shape": [3, 4], "dtype": d},
            {"shape": [3, 4], "dtype": d},
        ],
    }
    for shape in ([3, 4], [3])
    for c in ("float32", "int32", "uint8")
    for d in ("float32", "float64", "float16", "int32")
]
CASES += [
    {
        "op": "_ravel_multi_index",
        "attrs": {"shape": "(3, 4, 5)"},
        "inputs": [inside([3, 6], 3, dtype)],
    }
    for dtype in ("float32", "int64")
]
CASES += [
    {"op": "_unravel_index", "attrs": {"shape": "(3, 4, 5)"}, "inputs": [inside([6], 60, dtype)]}
    for dtype in ("float32", "int64")
]
