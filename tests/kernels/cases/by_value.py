"""Cases for operators whose result has a size that only the values tell. Plain data."""

WHOLE = {"shape": [8], "values": [3, 1, 3, 0, 5, 1, 1, 0], "dtype": "int32"}
TABLE = {"shape": [4, 2], "values": [1, 2, 3, 4, 1, 2, 0, 5]}
ALL = {"return_index": "True", "return_inverse": "True", "return_counts": "True"}
CASES = [
    dict(case, dynamic=True)
    for case in (
        *(
            {"op": "_npi_unique", "attrs": attrs, "inputs": [x]}
            for attrs in ({}, ALL)
            for x in (WHOLE, TABLE)
        ),
        {"op": "_npi_unique", "attrs": dict(ALL, axis="0"), "inputs": [TABLE]},
        {"op": "_npx_nonzero", "attrs": {}, "inputs": [WHOLE]},
        {"op": "_npx_nonzero", "attrs": {}, "inputs": [TABLE]},
        {"op": "_npi_bincount", "attrs": {"minlength": "3"}, "inputs": [WHOLE]},
        {
            "op": "_npi_bincount",
            "attrs": {"minlength": "9", "has_weights": "True"},
            "inputs": [WHOLE, {"shape": [8]}],
        },
    )
]
CASES += [
    {
        "op": "_npx_constraint_check",
        "attrs": {},
        "inputs": [{"shape": [3], "value": 1, "dtype": "bool"}],
    },
    {"op": "_npi_share_memory", "attrs": {}, "inputs": [{"shape": [2]}, {"shape": [2]}]},
    {"op": "_CrossDeviceCopy", "attrs": {}, "inputs": [{"shape": [2, 3]}]},
]
