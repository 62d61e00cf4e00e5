"""Cases for the likelihood of Hawkes processes. Plain data."""

CASES = [
    {
        "op": "_contrib_hawkesll",
        "attrs": {},
        "inputs": [
            {"shape": [2, 3], "values": [1.5, 2.0, 0.5, 0.7, 1.1, 0.3]},
            {"shape": [3], "values": [0.2, 0.3, 0.4]},
            {"shape": [3], "values": [1.0, 2.0, 0.5]},
            {"shape": [2, 3], "values": [0.0, 0.5, 1.0, 0.2, 0.0, 0.3]},
            {"shape": [2, 4], "values": [6.0, 7.0, 8.0, 9.0, 1.0, 0.5, 0.25, 2.0]},
            {"shape": [2, 4], "values": [0, 0, 2, 1, 1, 2, 0, 1], "dtype": "int32"},
            {"shape": [2], "values": [4, 3]},
            {"shape": [2], "values": [100.0, 5.0]},
        ],
    }
]
