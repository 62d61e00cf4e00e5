"""Cases of operators that no recording has, because they draw numbers or read a file; and of
attributes that none sets.
"""

from __future__ import annotations

from typing import Any

from tests.kernels.cases import joined

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
    {
        "op": "_sample_multinomial",
        "attrs": {"shape": "(6,)", "get_prob": "True"},
        "inputs": [_WEIGHTS],
    },
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
        "inputs": [
            {"shape": [2, 3, 8, 7], "dtype": dtype},
            {"shape": [4, 3, 3, 2], "dtype": dtype},
        ],
    }
    for pad in ("(-1, -2)", "(-1, 1)", "(0, 2)")
    for dtype in ("float32", "float64")
]


def _case(
    op: str, attrs: dict[str, str], *shapes: tuple[int, ...], dtype: str = "float32"
) -> dict[str, Any]:
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [{"shape": list(shape), "dtype": dtype} for shape in shapes],
    }


FURTHER += [
    _case("LeakyReLU", {"act_type": kind}, (3, 4), dtype="float64")
    for kind in ("elu", "selu", "gelu", "rrelu")
]
FURTHER += [_case("add_n", {"num_args": str(n)}, *[(2, 3)] * n, dtype="float16") for n in (4, 5)]
FURTHER += [
    _case(op, {"scalar": scalar}, (3, 4), dtype="int32")
    for op in ("_mod_scalar", "_div_scalar")
    for scalar in ("0", "-1", "1", "3")
]
FURTHER += [
    _case("_npi_pad", {"pad_width": widths, "mode": mode, "reflect_type": reflected}, (3, 4))
    for mode in ("constant", "edge", "reflect", "symmetric", "maximum", "minimum")
    for widths, reflected in (
        ("((0, 0), (1, 2))", "even"),
        ("((1, 0), (0, 1))", "even"),
        ("((1, 1), (0, 2))", "odd"),
        ("((-1, 1), (0, 2))", "even"),
        ("((0, 1), (2, -1))", "even"),
    )
]
FURTHER += [
    _case("SoftmaxOutput", {}, shape, shape[:-1])
    for shape in ((2, 3, 2, 2), (2, 3, 2, 2, 2), (2, 3, 4))
]
_TAPS = {"(2,)": (1, 2, 6), "(2, 1, 3)": (1, 2, 4, 3, 5)}
FURTHER += [_case("im2col", {"kernel": kernel}, shape) for kernel, shape in _TAPS.items()]
FURTHER += [
    _case(
        "Pooling",
        {"kernel": kernel, "stride": stride, "pad": pad, "layout": layout, **attrs},
        (2, *{"NWC": (7,), "NHWC": (7, 6), "NDHWC": (5, 7, 6)}[layout], 3),
        dtype=dtype,
    )
    for layout, kernel, stride, pad in (
        ("NWC", "(3,)", "(2,)", "(1,)"),
        ("NHWC", "(3, 2)", "(2, 1)", "(1, 0)"),
        ("NDHWC", "(3, 2, 2)", "(2, 1, 3)", "(1, 0, 1)"),
    )
    for attrs in (
        {"pool_type": "max"},
        {"pool_type": "avg", "count_include_pad": "False"},
        {"pool_type": "sum", "pooling_convention": "full"},
        {"pool_type": "lp", "p_value": "2"},
        {"pool_type": "avg", "global_pool": "True"},
    )
    for dtype in ("float32", "float64")
]
FURTHER += [
    {
        "op": "CTCLoss",
        "attrs": {"blank_label": blank},
        "inputs": [{"shape": [steps, 2, 4]}, {"shape": [2, 1], "values": [1.0, 2.0]}],
    }
    for steps in (1, 2)
    for blank in ("first", "last")
]
FURTHER += [
    {
        "op": "BatchNorm",
        "attrs": {"fix_gamma": "False", "eps": "0.001"},
        "inputs": [
            {"shape": [2, 2, 3]},
            {"shape": [2], "values": [1.0, 2.0]},
            {"shape": [2]},
            {"shape": [2], "values": [mean, 1.0]},
            {"shape": [2], "values": [0.0001, 1.0]},
        ],
    }
    for mean in (1.0, 50000.0)
]
FURTHER += [
    {
        "op": "_unravel_index",
        "attrs": {"shape": "(2, 1, 3)"},
        "inputs": [{"shape": [4], "values": [0, 2, 3, 5]}],
    },
    {
        "op": "_npi_bitwise_not",
        "attrs": {},
        "inputs": [{"shape": [4], "values": [0, 2, 3, 255], "dtype": "uint8"}],
    },
    {
        "op": "negative",
        "attrs": {},
        "inputs": [{"shape": [4], "values": [0, 2, 3, 255], "dtype": "uint8"}],
    },
]


FURTHER += [
    joined.dense_case(joined.DENSE, data, act, by_unit=by_unit)
    for data in ("uint8", "int8")
    for by_unit in (False, True)
    for act in (("square", {}), ("exp", {}), ("LeakyReLU", {"act_type": "gelu"}))
]
FURTHER += [
    joined.conv_case({**joined.CONV, **conv}, "uint8", other, ends=ends)
    for conv in ({}, {"num_group": "2", "num_filter": "2"})
    for other in (None, "int8", "uint8")
    for ends in (("-1.5", "40.0"), None)
]


def _ask(case: str, **changes: Any) -> dict[str, Any]:
    return {"case": case, **changes}


_BOXES = ((2, 5, 6), (2, 5, 7), (1, 4, 9))
_RANGES = ((1,),) * 4

ASKED: list[dict[str, Any]] = [
    *(_ask("boxes-7", attrs={"coord_start": "2"}, shapes=(shape,)) for shape in _BOXES),
    *(_ask("detection-0", attrs={"nms_threshold": number}) for number in ("0", "1", "1.5")),
    *(_ask("proposals-0", attrs={"rpn_pre_nms_top_n": number}) for number in ("0", "-1")),
    *(_ask("linear_algebra-0", outputs=count) for count in (2, 3)),
    *(_ask("linear_algebra-10", outputs=count) for count in (3, 4)),
    # The largest number of products that float32 and int32 hold, and one more.
    *(
        _ask("quantized-60", attrs={"num_hidden": "1"}, shapes=((1, count), (1, count), *_RANGES))
        for count in (514, 515, 65793, 65794)
    ),
    *(
        _ask(
            "quantized-58",
            attrs={"num_filter": "1"},
            shapes=((1, count, 1, 1), (1, count, 1, 1), *_RANGES),
        )
        for count in (514, 65794)
    ),
    *(
        _ask(
            "quantized_rnn-0",
            shapes=((1, 1, width), (16 * (width + 6),), (1, 1, 4), (1, 1, 4), (1,), (1,)),
        )
        for width in (510, 511)
    ),
    *(
        _ask("quantized-39", attrs={"count_include_pad": "False", **more})
        for more in (
            {},
            {"kernel": "(1, 1)", "global_pool": "True"},
            {"pooling_convention": "same"},
        )
    ),
    *(
        _ask(f"rnn-{number}", inputs="fed")
        for number in (2, 3, 6, 9, 11, 13, 15, 16, 17, 19, 24, 25)
    ),
    *(_ask("rnn-21", inputs=kind) for kind in ("fed", "stored")),
    *(_ask("regions-10", opset=opset) for opset in (15, 16, 17)),
    *(_ask("regions-6", opset=opset) for opset in (15, 16)),
    *(_ask("rotated_regions-0", attrs={"sampling_ratio": ratio}) for ratio in ("0", "1", "-1")),
    *(
        _ask(f"sampling-{number}", dtypes=("float64", "float64"))
        for number in (2, 3, 5, 6, 7, 8, 9, 10, 18)
    ),
    *(_ask(f"sampling-{number}", dtypes=("float16", "float16")) for number in (2, 3, 8, 18)),
    *(
        _ask(f"sampling-{number}", opset=opset)
        for number in (2, 3, 18)
        for opset in (15, 16, 19, 20)
    ),
    *(
        _ask("sampling-7", attrs={"stride1": "2", "kernel_size": kernel}, dtypes=(dtype, dtype))
        for kernel in ("1", "3")
        for dtype in ("float32", "float64")
    ),
    *(_ask("reduction-374", shapes=((0, 4),), attrs={"axis": axis}) for axis in ("0", "1", None)),
    *(_ask("reduction-371", shapes=((0, 4),), attrs={"axis": axis}) for axis in ("0", None)),
    *(
        _ask(f"numpy_elementwise-{number}", opset=opset)
        for number in (160, 161)
        for opset in (17, 18, 19)
    ),
    *(_ask(f"numpy_shapes-{number}", opset=opset) for number in (10, 11, 12) for opset in (13, 14)),
    *(
        _ask("binary-0", dtypes=(dtype, dtype), opset=opset)
        for dtype in ("int8", "uint8", "int32")
        for opset in (13, 14)
    ),
    *(_ask("reduction-242", opset=opset) for opset in (17, 18, 19)),
    *(_ask("numpy_statistics-33", opset=opset) for opset in (17, 18)),
    *(_ask("numpy_statistics-12", outputs=count) for count in (1, 2)),
    *(_ask("numpy_statistics-32", attrs={"ord": order}) for order in ("-1", "2", "3", "-inf")),
    *(_ask(f"numpy_statistics-{number}", outputs=4) for number in (28, 32)),
]
"""Cases with other attributes, shapes, dtypes, outputs or versions of the operator set: see ``questions.Question``."""
