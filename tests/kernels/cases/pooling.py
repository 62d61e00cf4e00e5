"""Cases for pooling. Plain data."""


def case(op, attrs, shape, **more):
    return {"op": op, "attrs": attrs, "inputs": [dict({"shape": shape}, **more)]}


CASES = [
    case(
        "Pooling",
        {
            "kernel": "(3, 3)",
            "pool_type": kind,
            "stride": "(2, 2)",
            "pad": "(1, 1)",
            "p_value": "2",
        },
        [2, 3, 7, 6],
    )
    for kind in ("max", "avg", "sum", "lp")
]
CASES += [
    case(
        "Pooling",
        {
            "kernel": "(3, 2)",
            "pool_type": kind,
            "stride": "(2, 3)",
            "pad": pad,
            "pooling_convention": convention,
        },
        [1, 2, 8, 9],
    )
    for kind in ("max", "avg")
    for convention in ("valid", "full")
    for pad in ("(0, 0)", "(1, 1)", "(2, 1)")
]
CASES += [
    case(
        "Pooling",
        dict(
            {
                "kernel": "(3, 3)",
                "pool_type": "avg",
                "stride": "(2, 2)",
                "pad": "(1, 1)",
                "pooling_convention": convention,
            },
            count_include_pad=flag,
        ),
        [1, 2, 6, 6],
    )
    for convention in ("valid", "full")
    for flag in ("True", "False", "None")
]
CASES += [
    case(
        "Pooling",
        {"kernel": "(2, 2)", "pool_type": "lp", "p_value": power},
        [1, 2, 4, 5],
        scale=0.3,
        shift=2.0,
    )
    for power in ("1", "2", "3")
]
CASES += [
    case(
        "Pooling", {"kernel": kernel, "pool_type": kind, "stride": kernel, "layout": layout}, shape
    )
    for kind in ("max", "avg", "sum")
    for kernel, layout, shape in (
        ("(2,)", "NCW", [2, 3, 7]),
        ("(2,)", "NWC", [2, 7, 3]),
        ("(2, 3)", "NHWC", [2, 5, 6, 3]),
        ("(2, 2, 3)", "NCDHW", [1, 2, 5, 4, 6]),
        ("(2, 2, 3)", "NDHWC", [1, 5, 4, 6, 2]),
    )
]
CASES += [
    case(
        "Pooling",
        {"global_pool": "True", "pool_type": kind, "layout": layout, "p_value": "2"},
        [2, 3, 4, 5],
    )
    for kind in ("max", "avg", "sum", "lp")
    for layout in ("NCHW", "NHWC")
]
CASES += [
    case(
        "Pooling",
        {
            "global_pool": "True",
            "kernel": "(2, 2)",
            "pad": "(1, 1)",
            "stride": "(2, 2)",
            "pool_type": "avg",
        },
        [1, 3, 4, 5],
    ),
    case("Pooling", {"global_pool": "True", "pool_type": "avg"}, [1, 3, 7]),
    case(
        "Pooling",
        {"global_pool": "True", "pool_type": "max", "kernel": "(1, 1, 1)"},
        [1, 3, 3, 4, 2],
    ),
    case(
        "Pooling",
        {"kernel": "(1, 1)", "stride": "(2, 2)", "pooling_convention": "full"},
        [1, 1, 4, 4],
    ),
    case(
        "Pooling",
        {"kernel": "(1, 1)", "stride": "(2, 2)", "pooling_convention": "full", "pool_type": "avg"},
        [1, 1, 4, 4],
    ),
    case("Pooling", {"kernel": "(54, 1)"}, [1, 2, 60, 3]),
    case("Pooling", {"kernel": "(3, 3)", "cudnn_off": "True"}, [1, 2, 5, 5]),
]
CASES += [
    case(
        "Pooling",
        {"kernel": "(2, 2)", "pool_type": kind, "pad": "(1, 1)"},
        [1, 2, 4, 5],
        dtype=dtype,
    )
    for kind in ("max", "avg")
    for dtype in ("float16", "float64")
]
CASES += [
    case(
        "Pooling_v1",
        {
            "kernel": "(3, 3)",
            "pool_type": kind,
            "stride": "(2, 2)",
            "pad": "(1, 1)",
            "pooling_convention": convention,
        },
        [1, 2, 6, 7],
    )
    for kind in ("max", "avg", "sum")
    for convention in ("valid", "full")
]
CASES += [
    case("Pooling_v1", {"global_pool": "True", "pool_type": kind}, [2, 2, 4, 5])
    for kind in ("max", "avg")
]
NOTHING = [
    float("nan"),
    float("-inf"),
    float("-inf"),
    1,
    float("nan"),
    float("nan"),
    float("-inf"),
    2,
]
CASES += [
    {
        "op": op,
        "attrs": dict({"kernel": "(1, 2)"}, **attrs),
        "inputs": [{"shape": [1, 1, 2, 4], "values": NOTHING, "dtype": dtype}],
    }
    for op in ("Pooling", "Pooling_v1")
    for attrs in (
        {"stride": "(1, 2)"},
        {"global_pool": "True"},
        {"kernel": "(2, 3)", "pad": "(1, 1)"},
    )
    for dtype in ("float32", "float64", "float16")
]
CASES += [
    {
        "op": "Pooling_v1",
        "attrs": dict(attrs, kernel="(2, 2)"),
        "inputs": [{"shape": [1, 2, 5, 6], "low": 0, "high": 2}],
    }
    for attrs in ({"stride": "(2, 1)"}, {"global_pool": "True"}, {"pad": "(1, 1)"})
]
CASES += [
    {
        "op": "Pooling_v1",
        "attrs": {
            "kernel": "(1, 4)",
            "stride": "(2, 3)",
            "pad": "(1, 0)",
            "pooling_convention": "full",
        },
        "inputs": [{"shape": [1, 2, 8, 5]}],
    }
]
CASES += [
    {
        "op": "Pooling",
        "attrs": {
            "global_pool": "True",
            "pooling_convention": "same",
            "pool_type": kind,
            "p_value": "1",
        },
        "inputs": [{"shape": [2, 2, 7]}],
    }
    for kind in ("max", "avg", "sum", "lp")
]
CASES += [
    {
        "op": "Pooling",
        "attrs": {"kernel": "(2,)", "pool_type": "lp", "p_value": "1"},
        "inputs": [{"shape": [1, 2, 9], "dtype": dtype, "low": -1, "high": 2}],
    }
    for dtype in ("float32", "float64")
]
