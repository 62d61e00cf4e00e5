"""Cases for matching boxes. Plain data."""

CASES = [
    {
        "op": "_contrib_bipartite_matching",
        "attrs": dict(attrs, threshold=threshold),
        "inputs": [{"shape": shape}],
    }
    for attrs in ({}, {"is_ascend": "True"}, {"topk": "1"})
    for threshold in ("-0.5", "0.3")
    for shape in ([3, 4], [2, 4, 3])
]
CORNERS = [0.1, 0.2, 0.5, 0.7, 0.3, 0.1, 0.9, 0.4, 0.0, 0.0, 0.2, 0.9]
CASES += [
    {
        "op": "_contrib_box_encode",
        "attrs": {},
        "inputs": [
            {"shape": [1, 3], "values": [1.0, -1.0, 1.0]},
            {"shape": [1, 3], "values": [1.0, 0.0, 0.0]},
            {"shape": [1, 3, 4], "values": CORNERS},
            {"shape": [1, 2, 4], "values": [0.2, 0.2, 0.6, 0.8, 0.1, 0.3, 0.7, 0.5]},
            {"shape": [4], "values": [0.0, 0.1, 0.0, -0.1]},
            {"shape": [4], "values": [0.1, 0.1, 0.2, 0.2]},
        ],
    }
]
