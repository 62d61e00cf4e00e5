"""Cases for sorting."""

TIES = [3, 1, 2, 3, 0, 0, 5, 1, 2, 2, 2, 4]

CASES = [
    {
        "op": "topk",
        "attrs": dict(attrs, ret_typ=kind),
        "inputs": [{"shape": [3, 4], "dtype": dtype, "values": TIES}],
    }
    for kind in ("indices", "value", "mask", "both")
    for attrs in (
        {},
        {"k": "2"},
        {"k": "0"},
        {"axis": "0"},
        {"axis": "None", "k": "3"},
        {"k": "2", "is_ascend": "True"},
    )
    for dtype in ("float32", "int32")
]
CASES += [
    {
        "op": "topk",
        "attrs": {"k": "2", "ret_typ": kind, "dtype": to},
        "inputs": [{"shape": [2, 3, 4], "dtype": dtype}],
    }
    for kind in ("indices", "both")
    for to in ("int32", "float64", "uint8", "int64")
    for dtype in ("float32", "float64")
]
CASES += [
    {"op": op, "attrs": attrs, "inputs": [{"shape": [3, 4], "dtype": dtype, "values": TIES}]}
    for op in ("sort", "argsort")
    for attrs in ({}, {"is_ascend": "False"}, {"axis": "0"}, {"axis": "None"})
    for dtype in ("float32", "float64", "int32", "uint8")
]
CASES += [
    {"op": "argsort", "attrs": {"dtype": to}, "inputs": [{"shape": [2, 5]}]}
    for to in ("int32", "int64", "float64")
]
