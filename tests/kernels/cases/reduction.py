"""Cases for reductions."""

from tests.kernels.rounding import sum_rounding, with_atol

OPS = "sum mean max min prod nansum nanprod norm".split()
AXES = (
    {},
    {"axis": "1"},
    {"axis": "-1"},
    {"axis": "(0, 2)"},
    {"axis": "()"},
    {"axis": "None"},
    {"axis": "(0, 1, -1)"},
)
NAN = float("nan")

CASES = [
    {"op": op, "attrs": dict(axis, **keep), "inputs": [{"shape": [2, 3, 4], "dtype": dtype}]}
    for op in OPS
    for axis in AXES
    for keep, dtype in (({}, "float32"), ({"keepdims": "True"}, "float64"))
]
CASES += [
    {"op": op, "attrs": dict(axis, exclude="True"), "inputs": [{"shape": [2, 3, 4]}]}
    for op in OPS[:-1]
    for axis in AXES
]
CASES += [
    {
        "op": op,
        "attrs": {"axis": "1"},
        "inputs": [{"shape": [4, 5], "dtype": dtype, "low": low, "high": 9}],
    }
    for op in OPS
    for dtype, low in (("float16", -8), ("int32", -8), ("int64", -8), ("int8", -8), ("uint8", 0))
]
CASES += [
    {
        "op": op,
        "attrs": {"axis": "1"},
        "inputs": [{"shape": [2, 3], "dtype": "uint8", "values": [200, 200, 101, 60, 61, 62]}],
    }
    for op in OPS
]
CASES += [
    {
        "op": op,
        "attrs": {"axis": "1"},
        "inputs": [{"shape": [3, 2], "values": [1, NAN, NAN, NAN, 5, 2]}],
    }
    for op in OPS
]
CASES += [
    {"op": op, "attrs": {}, "inputs": [{"shape": [2, 2], "dtype": "bool", "values": [1, 0, 1, 1]}]}
    for op in OPS
]
CASES += [
    {"op": "norm", "attrs": dict(axis, ord="1"), "inputs": [{"shape": [2, 3, 4], "dtype": dtype}]}
    for axis in AXES
    for dtype in ("float32", "float64")
]
CASES += [
    {
        "op": "norm",
        "attrs": {"ord": o},
        "inputs": [{"shape": [5], "dtype": "int32", "values": [1, 3, 2, -3, 3]}],
    }
    for o in ("1", "2")
]
CASES += [
    {"op": "norm", "attrs": {"out_dtype": "float32", "axis": "0"}, "inputs": [{"shape": [2, 3]}]}
]
CASES += [
    {
        "op": "moments",
        "attrs": attrs,
        "inputs": [{"shape": [2, 3, 4], "dtype": dtype, "scale": 3.0}],
    }
    for attrs in ({"axes": "(0,)"}, {"axes": "(0, 1, 2)"}, {"axes": "(-1, 0)", "keepdims": "True"})
    for dtype in ("float32", "float64", "float16", "int32")
]
CASES += [
    {"op": op, "attrs": attrs, "inputs": [{"shape": [3, 4], "dtype": dtype, "scale": 5.0}]}
    for op in ("argmax", "argmin", "_npi_argmax", "_npi_argmin")
    for attrs in (
        {},
        {"axis": "1"},
        {"axis": "-2"},
        {"keepdims": "True"},
        {"axis": "0", "keepdims": "True"},
    )
    for dtype in ("float32", "float64", "int32")
]
CASES += [
    {
        "op": op,
        "attrs": {"axis": "1"},
        "inputs": [{"shape": [3, 3], "values": [1, NAN, 3, 2, 7, 7, -1, -1, -1]}],
    }
    for op in ("argmax", "argmin")
]
CASES += [
    {
        "op": "argmax_channel",
        "attrs": {},
        "inputs": [{"shape": shape, "dtype": dtype, "scale": 5.0}],
    }
    for shape in ([3, 4], [2, 3, 4])
    for dtype in ("float32", "int32")
]
CASES += [
    {
        "op": "_np_cumsum",
        "attrs": attrs,
        "inputs": [{"shape": [3, 4], "dtype": dtype, "low": 0, "high": 5}],
    }
    for attrs in ({}, {"axis": "0"}, {"axis": "1", "dtype": "float64"})
    for dtype in ("float32", "int32", "uint8", "bool")
]
CASES += [
    {"op": op, "attrs": attrs, "inputs": [{"shape": [3, 4], "dtype": dtype, "low": 1, "high": 4}]}
    for op in ("_np_sum", "_np_prod", "_npi_mean")
    for attrs in ({}, {"axis": "0"}, {"axis": "(-1,)", "keepdims": "True"}, {"dtype": "float64"})
    for dtype in ("float32", "int32", "uint8", "bool", "float16")
    if attrs != {"dtype": "float64"} or dtype in ("float32", "int32")
]
CASES += [
    {"op": op, "attrs": attrs, "inputs": [{"shape": [3, 4], "dtype": dtype, "scale": 5.0}]}
    for op in ("_np_max", "_np_min")
    for attrs in ({}, {"axis": "0"}, {"axis": "(-1,)", "keepdims": "True"})
    for dtype in ("float32", "int32")
]
CASES += [
    {
        "op": op,
        "attrs": dict(keep, axis="()"),
        "inputs": [{"shape": [2, 3], "dtype": dtype, "low": 1, "high": 4}],
    }
    for op in ("_np_sum", "_np_prod", "_np_max", "_np_min", "_npi_mean")
    for keep in ({}, {"keepdims": "True"})
    for dtype in ("float32", "int32")
]
CASES += [
    {
        "op": "_npi_mean",
        "attrs": {"axis": "1", "dtype": dtype},
        "inputs": [{"shape": [2, 3], "dtype": given, "low": 0, "high": 9}],
    }
    for dtype in ("int32", "float64")
    for given in ("int32", "bool")
]


def rounding(case):
    """Sums have at most 24 terms; those of float16 are of whole numbers, and exact."""
    (spec,) = case["inputs"]
    summed = case["op"] in ("sum", "nansum", "mean", "moments") and spec.get(
        "dtype", "float32"
    ) in ("float32", "float64")
    return (
        sum_rounding(24, spec.get("scale", 1.0), spec.get("dtype", "float32")) if summed else None
    )


CASES = with_atol(CASES, rounding)
