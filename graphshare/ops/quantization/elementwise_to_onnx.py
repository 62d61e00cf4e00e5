"""Elementwise operators on 8-bit integers with ranges in ONNX."""

from __future__ import annotations

import numpy as np

from graphshare.ops.indexing.to_onnx import translate_embedding
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.quantization.onnx_ranges import constant_end, reach_of, round_to
from graphshare.ops.quantization.ranges import ENDS, calibration_range
from graphshare.ops.translation import Translation, Translator, Value
from graphshare.ops.unification import axis_of

_LEVELS = {"int8": 127.5, "uint8": 255.5, "int32": 2147483648.0}


def translate_quantize(t: Translation) -> list[str]:
    """Emit a product with the steps per 1.0 of the given range, and ``QuantizeLinear``."""
    x, dtype, reach = term(t), t.outputs[0].dtype, reach_of(t, 1)
    whole = round_to(x * (x.number(ENDS[dtype][1]) / reach), dtype, may_be_nan=True).name
    return [whole, (-reach).name, reach.name] if dtype == "int8" else [whole, t.inputs[1].name, t.inputs[2].name]


def translate_quantize_asymmetric(t: Translation) -> list[str]:
    """Emit ``QuantizeLinear`` over the calibrated range, else that of the data."""
    x = term(t)
    if x.dtype == "uint8":
        return [x.name, constant_end(t, 1), constant_end(t, 0)]
    calibrated = calibration_range(t.attrs)
    if calibrated:
        low, high = (Term(t, constant_end(t, end), "float32") for end in calibrated)
    else:
        axes = list(range(t.inputs[0].rank))
        low, high = (x.reduce(op, axes).reshape((1,)) for op in ("ReduceMin", "ReduceMax"))
    scale = 255 / (high - low)
    shift = 255 - high * scale
    return [round_to(x * scale + shift, "uint8", may_be_nan=True).name, scale.name, shift.name]


def translate_add(t: Translation) -> list[str]:
    """Emit the sum of both arrays in the steps of the result."""
    first, second, dtype = reach_of(t, 2), reach_of(t, 4), t.outputs[0].dtype
    calibrated = calibration_range(t.attrs)
    if calibrated:
        ends = [constant_end(t, end) for end in calibrated]
        unit = first.number(float(np.float32(_LEVELS[dtype]) / np.float32(max(map(abs, calibrated)))))
    else:
        high = first + second
        ends = [(-high).name, high.name]
        unit = _LEVELS[dtype] / high
    parts = []
    mixed = t.inputs[0].dtype != t.inputs[1].dtype
    for x, reach in zip(t.inputs, (first, second), strict=False):
        scaled = term(t, x).cast("float32") * (unit * reach / _LEVELS[x.dtype])
        parts.append(round_to(scaled, "int8").cast("float32") if mixed and x.dtype == "uint8" else scaled)
    whole = round_to(parts[0] + parts[1], dtype)
    return [whole.name if t.outputs[0].rank else whole.reshape(()).name, *ends]  # ranges have one axis


def translate_multiply(t: Translation) -> str | list[str]:
    """Emit the product: as floats, in the calibrated range (fractions truncated), or as 32-bit integers."""
    first, second = term(t, 0).cast("int32"), term(t, 1).cast("int32")
    products, (a, b) = first * second, (reach_of(t, 2), reach_of(t, 4))
    units = [_LEVELS["int8"] / reach for reach in (a, b)]
    if t.attrs["enable_float_output"]:
        factor = a.number(1) / units[0] / units[1]
        return (products.cast("float64") * factor.cast("float64")).cast("float32").name
    calibrated = calibration_range(t.attrs)
    if calibrated is None:
        level = a / 127 * (b / 127) * _LEVELS["int32"]
        return [products.name, (-level).name, level.name]
    unit = a.number(float(np.float32(127.5) / np.float32(max(map(abs, calibrated)))))
    scaled = products.cast("float32") * (unit / units[0] / units[1])
    return [scaled.cast("int64").cast("int8").name, *(constant_end(t, end) for end in calibrated)]


def translate_normalize(t: Translation) -> list[str]:
    """Emit BatchNorm with running statistics as a product and a sum, into the calibrated range."""
    calibrated = calibration_range(t.attrs)
    if calibrated is None:
        t.refuse("it has no calibrated range")
    if t.attrs["eps"] < 0:
        t.refuse(f"its eps is {t.attrs['eps']}")
    data, gamma, beta, mean, variance = (term(t, i) for i in range(5))
    whole = data.cast("float32")
    if data.dtype == "uint8":
        whole = round_to(whole * float(np.float32(127.5) / np.float32(255.5)), "int8").cast("float32")
    reach, eps = float(np.float32(max(map(abs, calibrated)))), t.attrs["eps"]
    inverse = (variance + eps).apply("Sqrt").apply("Reciprocal")
    once_more = float(np.sqrt(np.float32(1) + np.float32(eps)))
    scale = gamma * inverse * reach_of(t, 5) / reach / once_more
    shift = (beta - mean * gamma * inverse) * 127.5 / reach
    rank = t.inputs[0].rank
    shape = [1] * rank
    shape[axis_of(t.attrs["axis"], rank)] = t.inputs[1].shape[0]
    out = whole * scale.reshape(shape) + shift.reshape(shape)
    return [round_to(out, "int8").name, *(constant_end(t, end) for end in calibrated)]


def translate_look_up(t: Translation) -> list[str]:
    """Emit the rows of an integer weight, in its range."""
    weight = t.inputs[1]
    rows = translate_embedding(t.derive(t.attrs, [t.inputs[0], weight], [Value("", t.outputs[0].shape, weight.dtype)]))
    return [rows, t.inputs[2].name, t.inputs[3].name]


TRANSLATIONS = (
    Translator("_contrib_quantize", translate_quantize),
    Translator("_contrib_quantize_asym", translate_quantize_asymmetric),
    Translator("_contrib_quantized_elemwise_add", translate_add),
    Translator("_contrib_quantized_elemwise_mul", translate_multiply),
    Translator(
        "_contrib_quantized_batch_norm",
        translate_normalize,
        "without a calibrated range, or with a negative eps, it is refused",
    ),
    Translator("_contrib_quantized_embedding", translate_look_up),
)
