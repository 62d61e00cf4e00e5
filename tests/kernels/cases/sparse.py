"""Cases for operators of sparse arrays, on dense ones. Plain data."""

CASES = [
    {"op": "cast_storage", "attrs": {"stype": "default"}, "inputs": [{"shape": [2, 3]}]},
    {"op": "_scatter_elemwise_div", "attrs": {}, "inputs": [{"shape": [2, 3]}, {"shape": [2, 3]}]},
    *(
        {
            "op": f"_scatter_{op}_scalar",
            "attrs": {"scalar": "1.5"},
            "inputs": [{"shape": [2, 3], "dtype": dtype}],
        }
        for op in ("plus", "minus")
        for dtype in ("float32", "float64")
    ),
]
