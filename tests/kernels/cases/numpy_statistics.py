"""Cases for means, spreads, norms, counts and differences of the numpy interface. Plain data."""


def case(op, attrs, *specs, **more):
    inputs = [spec if isinstance(spec, dict) else {"shape": list(spec)} for spec in specs]
    return dict({"op": op, "attrs": attrs, "inputs": inputs}, **more)


CUBE = (2, 3, 4)
BITS = {"shape": [2, 3, 4], "dtype": "int32", "low": 0, "high": 2}
CASES = [
    case(op, attrs, x)
    for op in ("_np_all", "_np_any")
    for attrs in ({"axis": "(1,)"}, {"axis": "(0, 2)", "keepdims": "True"}, {"keepdims": "True"})
    for x in (BITS, CUBE)
]
CASES += [
    case(op, attrs, x, outputs=1)
    for op in ("_npi_std", "_npi_var")
    for attrs in (
        {"axis": "(1,)"},
        {"axis": "(0, 2)", "keepdims": "True", "ddof": "1"},
        {"keepdims": "True"},
    )
    for x in (CUBE, {"shape": [2, 3, 4], "dtype": "float64"})
]
CASES += [case("_npi_average", {"axis": "(1,)", "weighted": "False"}, CUBE)]
CASES += [
    case("_npi_average", {"axis": "(1,)"}, CUBE, x)
    for x in ({"shape": [3], "values": [1, 2, 5]}, CUBE)
]
CASES += [
    case(
        "_npi_average", {"axis": "(0,)", "returned": "True"}, CUBE, {"shape": [2], "values": [1, 2]}
    )
]
CASES += [
    case("_npi_norm", attrs, CUBE, outputs=1)
    for attrs in (
        {"axis": "(1,)", "flag": "0"},
        {"axis": "(1,)", "flag": "0", "ord": "1"},
        {"axis": "(2,)", "flag": "0", "ord": "3", "keepdims": "True"},
        {"axis": "(0, 2)", "flag": "1"},
        {"axis": "(1, 2)", "flag": "0", "ord": "1"},
        {"axis": "(1, 2)", "flag": "0", "ord": "inf"},
    )
]
CASES += [
    case("_npi_percentile", dict(attrs, q_scalar="30", interpolation=how), CUBE)
    for attrs in ({"axis": "(1,)"}, {"axis": "(0, 2)", "keepdims": "True"})
    for how in ("linear", "lower", "higher", "midpoint", "nearest")
]
CASES += [case("_npi_percentile", {"axis": "(2,)"}, CUBE, {"shape": [3], "values": [10, 50, 90]})]
CASES += [
    case("_npi_diff", {"n": n, "axis": axis}, CUBE)
    for n in ("1", "2")
    for axis in ("0", "-1")
    if (n, axis) != ("2", "0")
]
CASES += [
    case("_npi_ediff1d", {}, CUBE),
    case("_npi_ediff1d", {"to_begin_scalar": "9", "to_end_scalar": "7"}, CUBE),
    case(
        "_npi_ediff1d", {"to_begin_arr_given": "True", "to_end_arr_given": "True"}, CUBE, (2,), (3,)
    ),
]
CASES += [case("_histogram", {"bin_cnt": "5", "range": "(-1.5, 1.5)"}, (40,))]
CASES += [case("_histogram", {}, (40,), {"shape": [4], "values": [-1, 0, 0.25, 1.5]})]
CASES += [
    case("_contrib_allclose", {}, CUBE, CUBE),
    case("_contrib_allclose", {"atol": "100"}, CUBE, CUBE),
]
CASES += [
    case("_npi_norm", attrs, x, outputs=1)
    for attrs, x in (
        ({"flag": "1", "axis": "(1,)"}, CUBE),
        (
            {"flag": "-1", "axis": "(1,)", "ord": "-1"},
            {"shape": [2, 3], "values": [0, 1, 2, 3, 0, -1]},
        ),
        (
            {"flag": "-1", "axis": "(1,)", "ord": "0"},
            {"shape": [2, 3], "values": [0, 1, 2, 3, 0, -1]},
        ),
        ({"flag": "-1", "ord": "2"}, CUBE),
        ({"flag": "2", "ord": "2"}, CUBE),
        ({"flag": "1", "keepdims": "True"}, CUBE),
        ({"flag": "-1", "axis": "(2, 0)", "ord": "3"}, CUBE),
        ({"flag": "-1", "axis": "(2, 0)", "ord": "-3"}, CUBE),
        ({"flag": "-2", "keepdims": "True"}, CUBE),
    )
]
CASES += [
    {
        "op": op,
        "attrs": dict(keep, axis="()"),
        "inputs": [{"shape": [2, 3], "dtype": dtype, "low": 0, "high": 4}],
    }
    for op in ("_np_any", "_np_all", "_npi_std", "_npi_var")
    for keep in ({}, {"keepdims": "True"})
    for dtype in ("float32", "int32")
]
CASES += [
    {
        "op": "_npi_average",
        "attrs": dict(attrs, axis="()"),
        "inputs": [{"shape": [2, 3], "low": 1, "high": 9}] * inputs,
    }
    for attrs, inputs in (({}, 2), ({"returned": "True"}, 2), ({"weighted": "False"}, 1))
]
CASES += [
    case(op, attrs, {"shape": [3, 4], "dtype": "int32", "low": 0, "high": 9}, outputs=1)
    for op in ("_npi_std", "_npi_var")
    for attrs in ({"axis": "1"}, {"axis": "0", "dtype": "float64"}, {"ddof": "1"})
]
