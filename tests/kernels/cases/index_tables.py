"""Cases for operators on indices. Plain data."""

ROWS = {"shape": [3], "values": [3.0, 0.0, 2.0]}
CASES = [
    {"op": "_contrib_index_array", "attrs": attrs, "inputs": [{"shape": [2, 3, 2]}]}
    for attrs in ({}, {"axes": "(1,)"}, {"axes": "(2, 0)"}, {"axes": "(-1,)"})
]
CASES += [
    {
        "op": "_contrib_index_copy",
        "attrs": {},
        "inputs": [{"shape": [5, *rest]}, dict(ROWS, dtype=dtype), {"shape": [3, *rest]}],
    }
    for rest, dtype in (([2], "int32"), ([2, 3], "int64"))
]
