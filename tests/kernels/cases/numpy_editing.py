"""Cases for deletions and insertions of the numpy interface. Plain data."""

CUBE = {"shape": [2, 5, 3]}
SLICE = {"start": "1", "stop": "5", "step": "2"}
CASES = [
    {"op": "_npi_delete", "attrs": attrs, "inputs": [CUBE]}
    for attrs in (
        {"int_ind": "2", "axis": "1"},
        {"int_ind": "-1", "axis": "0"},
        dict(SLICE, axis="1"),
        {"int_ind": "3"},
    )
]
CASES += [
    {
        "op": "_npi_insert_scalar",
        "attrs": {"int_ind": place, "axis": "1"},
        "inputs": [CUBE, {"shape": shape}],
    }
    for place in ("2", "-1")
    for shape in ([2, 1, 3], [1, 1, 3], [3, 2, 3])
]
CASES += [
    {
        "op": "_npi_insert_slice",
        "attrs": dict(SLICE, axis="1"),
        "inputs": [CUBE, {"shape": [2, 2, 3]}],
    }
]
CASES += [
    {
        "op": "_npi_insert_tensor",
        "attrs": {"axis": "1"},
        "inputs": [CUBE, {"shape": [2, 2, 3]}, {"shape": [2], "values": [0, 3], "dtype": "int64"}],
    }
]
CASES += [
    {
        "op": "_npi_insert_tensor",
        "attrs": {"axis": "1"},
        "inputs": [
            {"shape": [2, 5, 3]},
            {"shape": shape},
            {"shape": [1], "dtype": "int64", "values": [1]},
        ],
    }
    for shape in ([2, 3], [2, 1, 3], [1, 2, 3], [3])
]
