"""Cases for integers that are made with a given range, added, multiplied, normalized, looked up. Plain data."""


def end(value):
    return {"shape": [1], "value": value}


def whole(shape, dtype):
    return {
        "shape": shape,
        "dtype": dtype,
        "low": -127 if dtype == "int8" else 0,
        "high": 128 if dtype == "int8" else 256,
    }


def case(op, attrs, *inputs):
    return {"op": "_contrib_" + op, "attrs": attrs, "inputs": list(inputs)}


CALIBRATED = {"min_calib_range": "-1.0", "max_calib_range": "2.5"}
CASES = [
    case("quantize", {"out_type": kind}, {"shape": [3, 20]}, end(low), end(high))
    for kind in ("int8", "uint8")
    for low, high in ((-2.0, 1.5), (0.0, 2.5))
]
CASES += [
    case(
        "quantized_elemwise_add",
        attrs,
        whole([2, 3, 17], a),
        whole([2, 3, 17], b),
        end(-2.0),
        end(1.5),
        end(-1.0),
        end(0.5),
    )
    for attrs in (CALIBRATED, {})
    for a in ("int8", "uint8")
    for b in ("int8", "uint8")
    if attrs or a == b
]
CASES += [
    case(
        "quantized_elemwise_mul",
        attrs,
        whole([2, 17], "int8"),
        whole([2, 17], "int8"),
        end(-2.0),
        end(1.5),
        end(-1.0),
        end(0.5),
    )
    for attrs in (CALIBRATED, {}, {"enable_float_output": "True"})
]
CASES += [
    case(
        "quantized_batch_norm",
        dict(CALIBRATED, fix_gamma="False"),
        whole([2, 3, 4, 5], kind),
        {"shape": [3]},
        {"shape": [3]},
        {"shape": [3]},
        {"shape": [3], "shift": 4.0, "scale": 0.5},
        end(-2.0),
        end(1.5),
    )
    for kind in ("int8", "uint8")
]
CASES += [
    case(
        "quantized_embedding",
        {"input_dim": "5", "output_dim": "3"},
        {"shape": [2, 3], "values": [0, 4, 2, 1, 1, 3]},
        whole([5, 3], "int8"),
        end(-2.0),
        end(1.5),
    )
]
CASES += [case("quantize_asym", attrs, {"shape": [2, 3, 17]}) for attrs in (CALIBRATED, {})]
