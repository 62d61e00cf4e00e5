"""Cases of operators that no recording has, because they draw numbers or read a file; and of attributes that none sets."""

from __future__ import annotations

from typing import Any

_SHAPE = {"shape": "(3, 4)"}
_LIKE = {"shape": [3, 4], "value": 0.0}
_LOW, _HIGH = {"shape": [2], "values": [1.0, 4.0]}, {"shape": [2], "values": [2.0, 9.0]}
_WEIGHTS = {"shape": [2, 3], "values": [0.1, 0.2, 0.7, 0.5, 0.25, 0.25]}

FURTHER: list[dict[str, Any]] = [
    {"op": "_random_uniform", "attrs": {**_SHAPE, "low": "-1", "high": "3"}, "inputs": []},
    {"op": "_random_normal", "attrs": {**_SHAPE, "loc": "2", "scale": "0.5"}, "inputs": []},
    {"op": "_random_exponential", "attrs": {**_SHAPE, "lam": "4"}, "inputs": []},
    {"op": "_random_randint", "attrs": {**_SHAPE, "low": "-3", "high": "5"}, "inputs": []},
    {"op": "_random_uniform_like", "attrs": {"low": "2", "high": "3"}, "inputs": [_LIKE]},
    {"op": "_random_normal_like", "attrs": {"loc": "-1", "scale": "2"}, "inputs": [_LIKE]},
    {"op": "_random_exponential_like", "attrs": {"lam": "0.5"}, "inputs": [_LIKE]},
    {"op": "_sample_uniform", "attrs": {"shape": "(5,)"}, "inputs": [_LOW, _HIGH]},
    {"op": "_sample_normal", "attrs": {"shape": "(5, 2)"}, "inputs": [_LOW, _HIGH]},
    {"op": "_sample_exponential", "attrs": {"shape": "(5,)"}, "inputs": [_LOW]},
    {"op": "_sample_multinomial", "attrs": {"shape": "(6,)"}, "inputs": [_WEIGHTS]},
    {"op": "_sample_multinomial", "attrs": {"shape": "(6,)", "get_prob": "True"}, "inputs": [_WEIGHTS]},
    {"op": "_sample_multinomial", "attrs": {}, "inputs": [_WEIGHTS]},
    {"op": "_shuffle", "attrs": {}, "inputs": [{"shape": [5, 3]}]},
]

_LAYOUTS = (("NHWC", [7, 6]), ("NDHWC", [5, 7, 6]))
FURTHER += [
    {
        "op": op,
        "attrs": {
            "kernel": str(tuple([3, 2, 2][: len(sizes)])),
            "stride": str(tuple([2, 1, 3][: len(sizes)])),
            "pad": str(tuple([1, 0, 1][: len(sizes)])),
            "num_filter": "4",
            "num_group": "2",
            "no_bias": "False",
            "layout": layout,
        },
        "inputs": [
            {"shape": [2, *sizes, 6], "dtype": dtype},
            {"shape": [channels, *[3, 2, 2][: len(sizes)], filters], "dtype": dtype},
            {"shape": [4], "dtype": dtype},
        ],
    }
    for op, channels, filters in (("Convolution", 4, 3), ("Deconvolution", 6, 2))
    for layout, sizes in _LAYOUTS
    for dtype in ("float32", "float64")
]
FURTHER += [
    {
        "op": "Convolution",
        "attrs": {"kernel": "(3, 2)", "pad": pad, "num_filter": "4", "no_bias": "True"},
        "inputs": [{"shape": [2, 3, 8, 7], "dtype": dtype}, {"shape": [4, 3, 3, 2], "dtype": dtype}],
    }
    for pad in ("(-1, -2)", "(-1, 1)", "(0, 2)")
    for dtype in ("float32", "float64")
]
