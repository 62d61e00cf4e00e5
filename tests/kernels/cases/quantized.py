"""Cases for eight-bit integers. Plain data."""


def end(value):
    return {"shape": [1], "value": value}


def whole(shape, dtype, low=None, high=None):
    ends = {"int8": (-127, 128), "uint8": (0, 256), "int32": (-(10**6), 10**6)}[dtype]
    return {
        "shape": shape,
        "dtype": dtype,
        "low": ends[0] if low is None else low,
        "high": ends[1] if high is None else high,
    }


def case(op, attrs, *inputs):
    return {"op": "_contrib_" + op, "attrs": attrs, "inputs": list(inputs)}


RANGES = (
    {},
    {"min_calib_range": "-1.0", "max_calib_range": "1.9"},
    {"min_calib_range": "0.0", "max_calib_range": "1.9"},
)
CASES = [
    case("quantize_v2", dict(attrs, out_type=kind), {"shape": [2, 3, 17], "shift": shift})
    for kind in ("int8", "uint8", "auto")
    for attrs in RANGES
    for shift in (0.0, 4.0)
]
CASES += [
    case(
        "requantize",
        dict(attrs, out_type=kind),
        whole([2, 3, 17], "int32"),
        end(-3000.0),
        end(3000.0),
    )
    for kind in ("int8", "uint8", "auto")
    for attrs in RANGES
]
CASES += [
    case("dequantize", {}, whole([3, 20], kind), end(low), end(high))
    for kind in ("int8", "uint8")
    for low, high in ((0.0, 1.5), (-2.0, 1.5))
]
CASES += [case("quantized_act", {"act_type": "relu"}, whole([3, 20], "int8"), end(-2.0), end(1.5))]
CASES += [
    case("quantized_flatten", {}, whole([2, 3, 4], kind), end(-2.0), end(1.5))
    for kind in ("int8", "uint8")
]
CASES += [
    case(
        "quantized_pooling",
        dict(attrs, pool_type=pool),
        whole([1, 3, 6, 7], kind),
        end(-2.0),
        end(1.5),
    )
    for kind in ("int8", "uint8")
    for pool in ("max", "avg")
    for attrs in (
        {"kernel": "(2, 2)"},
        {"kernel": "(3, 3)", "stride": "(2, 2)", "pad": "(1, 1)"},
        {"kernel": "(1, 1)", "global_pool": "True"},
        {"kernel": "(3, 3)", "stride": "(2, 2)", "pooling_convention": "full", "layout": "NCHW"},
    )
]
CASES += [
    case(
        "quantized_concat",
        {"num_args": "2", "dim": dim},
        whole([2, 5], a),
        whole([2, 5], b),
        end(0.0 if a == "uint8" else -2.0),
        end(1.5),
        end(0.0 if b == "uint8" else -1.0),
        end(1.0),
    )
    for dim in ("0", "1")
    for a, b in (("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8"))
]
ENDS = (end(-1.0), end(2.0), end(-0.5), end(0.4))
CASES += [
    case(
        "quantized_conv",
        dict(attrs, num_filter="4", no_bias="True"),
        whole([1, 4, 6, 7], "uint8"),
        whole(weight, "int8"),
        *ENDS,
    )
    for attrs, weight in (
        ({"kernel": "(3, 3)"}, [4, 4, 3, 3]),
        ({"kernel": "(3, 3)", "stride": "(2, 2)", "pad": "(1, 1)", "layout": "NCHW"}, [4, 4, 3, 3]),
        ({"kernel": "(1, 1)"}, [4, 4, 1, 1]),
    )
]
CASES += [
    case(
        "quantized_conv",
        {"kernel": "(3, 3)", "num_filter": "4"},
        whole([1, 4, 6, 7], "uint8"),
        whole([4, 4, 3, 3], "int8"),
        whole([4], "int8"),
        *ENDS,
        end(-3.0),
        end(2.0),
    )
]
CASES += [
    case(
        "quantized_fully_connected",
        {"num_hidden": "4", "no_bias": "True"},
        whole([2, 10], kind),
        whole([4, 10], "int8"),
        *ENDS,
    )
    for kind in ("int8", "uint8")
]
CASES += [
    case(
        "quantized_fully_connected",
        {"num_hidden": "4"},
        whole([2, 10], kind),
        whole([4, 10], "int8"),
        whole([4], "int8"),
        *ENDS,
        end(-3.0),
        end(2.0),
    )
    for kind in ("int8", "uint8")
]
