"""Layers of 8-bit integers in ONNX: kernels' arithmetic in floats, and ``QuantizeLinear``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from graphshare.ops.convolution.to_onnx import translate_convolution
from graphshare.ops.indexing.to_onnx import translate_embedding
from graphshare.ops.kernel import Attrs
from graphshare.ops.limits import QUANTIZED
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.pooling.kernel import axes_and_window
from graphshare.ops.pooling.to_onnx import translate_pooling
from graphshare.ops.quantization.kernel import ENDS, LEVELS, WHOLE_RANGES, calibration_range
from graphshare.ops.quantization.rnn_to_onnx import TRANSLATIONS as RNN
from graphshare.ops.translation import Translation, Translator, Value
from graphshare.ops.unification import normalize_axis

_EXACT = 1 << 24
"""Below it float32 holds every integer."""


def constant_end(t: Translation, value: float) -> str:
    """Return a constant end."""
    return t.constant(np.full(1, value, np.float32), "float32")


def largest(low: Term, high: Term) -> Term:
    """Return the largest absolute value of a range."""
    return low.apply("Abs").apply("Max", high.apply("Abs"))


def _ends_of_data(x: Term, rank: int) -> Iterator[Term]:
    """Yield the least, then the greatest number."""
    return (x.reduce(op, range(rank)).reshape((1,)) for op in ("ReduceMin", "ReduceMax"))


def find_magnitude(t: Translation, first: int) -> Term:
    """Return the largest absolute value of inputs ``first`` and the next."""
    return largest(term(t, first), term(t, first + 1))


def divide_or(dividend: float, divisor: Term, otherwise: float) -> Term:
    """Return ``dividend / divisor``, or ``otherwise`` where the divisor is 0."""
    return divisor.equals(0).choose(divisor.number(otherwise), divisor.number(dividend) / divisor)


def round_to(x: Term, dtype: str, *, may_be_nan: bool = False) -> Term:
    """Emit the kernel's ``round_to``."""
    if may_be_nan:  # QuantizeLinear leaves its result for NaN open
        x = x.is_nan().choose(0.0 if dtype == "uint8" else float(ENDS[dtype][1]), x)
    if x.dtype == "float32" and dtype != "int32":  # a step of 1
        one, zero = x.number(1), x.number(0, dtype)
        return Term(x.t, x.t.emit("QuantizeLinear", x.name, one.name, zero.name), dtype)
    low, high = ENDS[dtype]
    return x.cast("float64").apply("Round").apply("Clip", low, high).cast(dtype)


def product_range(data: Term, data_levels: float, weight: Term, weight_levels: float) -> list[str]:
    """Return the ends of the range of 32-bit sums."""
    reach = (data / data_levels) * (weight / weight_levels) * float(1 << 31)
    return [(-reach).name, reach.name]


def convolve(
    t: Translation, attrs: Attrs, x: Term, weight: Term, shapes: Mapping[str, tuple[int, ...]]
) -> Term:
    """Convolve integers in float32: exact for sums below 2**24, else nearly so.

    ``shapes`` has ``x``, ``weight`` and ``out``. Without VNNI, onnxruntime's ``ConvInteger`` adds
    pairs of products in 16 bits and clips them. A ``Round`` keeps onnxruntime from multiplying
    later factors into the weights: they must stay integers.
    """
    inputs = [
        Value(v.cast("float32").name, shapes[key], "float32")
        for key, v in (("x", x), ("weight", weight))
    ]
    out = Value("", shapes["out"], "float32")
    return Term(
        t, translate_convolution(t.derive({**attrs, "no_bias": True}, inputs, [out])), "float32"
    ).apply("Round")


def multiply_rows(
    t: Translation, x: Term, weight: Term, shape: tuple[int, ...], weight_shape: tuple[int, ...]
) -> Term:
    """Multiply integer rows (last axis of ``shape``) exactly by a weight's rows (units, inputs).

    Products are float64, or float32 where the sums fit.
    """
    exact = "float32" if weight_shape[1] * 255 * 128 < _EXACT else "float64"
    rows = x.cast(exact)
    if len(shape) > 2:
        rows = rows.reshape((prod(shape[:-1]), shape[-1]))
    return Term(t, t.emit("Gemm", rows.name, weight.cast(exact).name, transB=1), exact)


def translate_quantize_in_range(t: Translation) -> list[str]:
    """Emit a product with the range's steps, and ``QuantizeLinear``."""
    x, dtype, reach = term(t), t.outputs[0].dtype, find_magnitude(t, 1)
    whole = round_to(x * (x.number(ENDS[dtype][1]) / reach), dtype, may_be_nan=True).name
    if dtype == "int8":
        return [whole, (-reach).name, reach.name]
    return [whole, t.inputs[1].name, t.inputs[2].name]


def translate_quantize_asymmetric(t: Translation) -> list[str]:
    """Emit ``QuantizeLinear`` over the calibrated range, else the data's."""
    x = term(t)
    if x.dtype == "uint8":
        return [x.name, constant_end(t, 1), constant_end(t, 0)]
    calibrated = calibration_range(t.attrs)
    if calibrated:
        low, high = (Term(t, constant_end(t, end), "float32") for end in calibrated)
    else:
        low, high = _ends_of_data(x, t.inputs[0].rank)
    scale = 255 / (high - low)
    shift = 255 - high * scale
    return [
        _without_axis(t, round_to(x * scale + shift, "uint8", may_be_nan=True)),
        scale.name,
        shift.name,
    ]


def translate_add(t: Translation) -> list[str]:
    """Add in the result's steps."""
    first, second, dtype = find_magnitude(t, 2), find_magnitude(t, 4), t.outputs[0].dtype
    calibrated = calibration_range(t.attrs)
    if calibrated:
        ends = [constant_end(t, end) for end in calibrated]
        unit = first.number(
            float(np.float32(LEVELS[dtype]) / np.float32(max(map(abs, calibrated))))
        )
    else:
        high = first + second
        ends = [(-high).name, high.name]
        unit = LEVELS[dtype] / high
    parts = []
    mixed = t.inputs[0].dtype != t.inputs[1].dtype
    _require_bytes(t, 2)
    for x, reach in zip(t.inputs, (first, second), strict=False):
        scaled = term(t, x).cast("float32") * (unit * reach / LEVELS[x.dtype])
        parts.append(
            round_to(scaled, "int8").cast("float32") if mixed and x.dtype == "uint8" else scaled
        )
    return [_without_axis(t, round_to(parts[0] + parts[1], dtype)), *ends]


def _without_axis(t: Translation, x: Term) -> str:
    """Drop the axis that a result without axes got from a range."""
    return x.name if t.outputs[0].rank else x.reshape(()).name


def translate_multiply(t: Translation) -> str | list[str]:
    """Multiply as the kernel does."""
    first, second = term(t, 0).cast("int32"), term(t, 1).cast("int32")
    products, (a, b) = first * second, (find_magnitude(t, 2), find_magnitude(t, 4))
    units = [LEVELS["int8"] / reach for reach in (a, b)]
    if t.attrs["enable_float_output"]:
        factor = a.number(1) / units[0] / units[1]
        # Like numpy, multiply int32 and float32 in float64.
        return _without_axis(t, (products.cast("float64") * factor.cast("float64")).cast("float32"))
    calibrated = calibration_range(t.attrs)
    if calibrated is None:
        level = a / 127 * (b / 127) * LEVELS["int32"]
        return [products.name, (-level).name, level.name]
    unit = a.number(float(np.float32(127.5) / np.float32(max(map(abs, calibrated)))))
    scaled = products.cast("float32") * (unit / units[0] / units[1])
    return [
        _without_axis(t, scaled.cast("int64").cast("int8")),
        *(constant_end(t, end) for end in calibrated),
    ]


def translate_normalize(t: Translation) -> list[str]:
    """Emit BatchNorm as product and sum, into the calibrated range."""
    calibrated = calibration_range(t.attrs)
    if calibrated is None:
        t.refuse("it has no calibrated range")
    if t.attrs["eps"] < 0:
        t.refuse(f"its eps is {t.attrs['eps']}, expected at least 0")
    data, gamma, beta, mean, variance = (term(t, i) for i in range(5))
    whole = data.cast("float32")
    if data.dtype == "uint8":
        whole = round_to(whole * float(np.float32(127.5) / np.float32(255.5)), "int8").cast(
            "float32"
        )
    reach, eps = float(np.float32(max(map(abs, calibrated)))), t.attrs["eps"]
    inverse = (variance + eps).apply("Sqrt").apply("Reciprocal")
    once_more = float(np.sqrt(np.float32(1) + np.float32(eps)))
    scale = gamma * inverse * find_magnitude(t, 5) / reach / once_more
    shift = (beta - mean * gamma * inverse) * 127.5 / reach
    rank = t.inputs[0].rank
    shape = [1] * rank
    shape[normalize_axis(t.attrs["axis"], rank)] = t.inputs[1].shape[0]
    out = whole * scale.reshape(shape) + shift.reshape(shape)
    return [round_to(out, "int8").name, *(constant_end(t, end) for end in calibrated)]


def translate_look_up(t: Translation) -> list[str]:
    """Return rows of an integer weight, in its range."""
    weight = t.inputs[1]
    rows = translate_embedding(
        t.derive(t.attrs, [t.inputs[0], weight], [Value("", t.outputs[0].shape, weight.dtype)])
    )
    return [rows, t.inputs[2].name, t.inputs[3].name]


def translate_quantize(t: Translation) -> list[str]:
    """Emit a product with the steps, and ``QuantizeLinear``; uncalibrated ranges are the data's."""
    x, dtype = term(t), t.outputs[0].dtype
    calibrated = calibration_range(t.attrs)
    if not x.is_float:
        # MXNet copies the bytes as the other dtype; ONNX cannot, up to opset 21.
        if x.dtype != dtype:
            t.refuse(f"its data is {x.dtype} and its result {dtype}, expected the same dtype")
        return [x.name, *(constant_end(t, end) for end in calibrated or WHOLE_RANGES[dtype])]
    if calibrated:
        reach = float(np.float32(max(map(abs, calibrated))))
        ends = (-reach, reach) if dtype == "int8" else calibrated
        unit = float(np.float32(LEVELS[dtype] / reach)) if reach else np.inf
        return [
            round_to(x * unit, dtype, may_be_nan=True).name,
            *(constant_end(t, end) for end in ends),
        ]
    low, high = _ends_of_data(x, t.inputs[0].rank)
    widest = largest(low, high)
    whole = round_to(x * divide_or(LEVELS[dtype], widest, np.inf), dtype, may_be_nan=True)
    if dtype == "int8":
        low, high = -widest, widest
    return [_without_axis(t, whole), low.name, high.name]


def translate_dequantize(t: Translation) -> str:
    """Emit ``DequantizeLinear``."""
    _require_bytes(t, 1)
    x = t.inputs[0]
    step = (find_magnitude(t, 1) / LEVELS[x.dtype]).reshape(())
    return t.emit("DequantizeLinear", x, step.name, t.number(0, x.dtype))


def translate_requantize(t: Translation) -> list[str]:
    """Change the steps of 32-bit sums in float32; nothing represents a range of 0."""
    x, dtype = term(t).cast("float32"), t.outputs[0].dtype
    unit = find_magnitude(t, 1) / LEVELS["int32"]
    calibrated = calibration_range(t.attrs)
    if calibrated:
        reach = Term(t, constant_end(t, max(map(abs, calibrated))), "float32")
    else:
        low, high = (end * unit for end in _ends_of_data(x, t.inputs[0].rank))
        reach = largest(low, high)
    scaled = x * (unit * (ENDS[dtype][1] / reach))
    begin = reach * 0.0 if dtype == "uint8" else -reach
    return [_without_axis(t, round_to(scaled, dtype, may_be_nan=True)), begin.name, reach.name]


def translate_act(t: Translation) -> list[str]:
    """Emit ``Clip`` from 0 to 127, as int8."""
    if t.attrs["act_type"] != "relu":
        t.refuse(
            f"it has the act_type {t.attrs['act_type']}, and MXNet computes only relu of integers"
        )
    x = term(t).cast("int8") if t.inputs[0].dtype == "bool" else term(t)  # ONNX clips no booleans
    return [x.apply("Clip", 0, 127).cast("int8").name, *_ranges(t)]


def _ranges(t: Translation) -> list[str]:
    return [x.name for x in t.inputs[1:3]]


def translate_pool(t: Translation) -> list[str]:
    """Pool integers as float32; means are rounded."""
    _require_bytes(t, 1)
    x, kind = t.inputs[0], t.attrs["pool_type"]
    if kind not in ("max", "avg"):
        t.refuse(f"it has the pool_type {kind}, and MXNet computes only max and avg of integers")
    attrs = t.attrs
    if attrs["pooling_convention"] == "same":
        attrs = {**attrs, "pooling_convention": "full"}
    data = Value(t.cast(x, "float32"), x.shape, "float32")

    def pool(more: Attrs) -> Term:
        out = Value("", t.outputs[0].shape, "float32")
        return Term(t, translate_pooling(t.derive({**attrs, **more}, [data], [out])), "float32")

    if kind == "max":
        return [pool({}).cast(x.dtype).name, *_ranges(t)]
    if attrs["count_include_pad"] is False and not attrs["global_pool"]:
        means = pool({})
    else:  # a mean of integers that is half way between two must be so exactly
        axes, window = axes_and_window(attrs, x.shape)
        cells = (
            prod(x.shape[axis] for axis in axes) if attrs["global_pool"] else prod(window.kernel)
        )
        # The sum, a mean times the window size, is whole only after rounding.
        means = pool({"pool_type": "sum"}).apply("Round") / float(cells)
    return [round_to(means, x.dtype).name, *_ranges(t)]


def translate_concat(t: Translation) -> list[str]:
    """Concatenate integers in steps of the widest range."""
    count, dtype = t.attrs["num_args"], t.outputs[0].dtype
    _require_bytes(t, count)
    lows, highs = ([term(t, i) for i in range(count + side, len(t.inputs), 2)] for side in (0, 1))
    low, high = lows[0].apply("Min", 0, *lows[1:]), highs[0].apply("Max", 0, *highs[1:])
    wide = largest(low, high).cast("float64") / LEVELS[dtype]
    scaled = []
    for i, x in enumerate(t.inputs[:count]):
        ratio = largest(lows[i], highs[i]).cast("float64") / LEVELS[x.dtype] / wide
        factor = wide.equals(0).choose(wide.number(1), ratio).cast("float32")
        scaled.append(round_to(term(t, x).cast("float32") * factor, dtype).name)
    return [t.emit("Concat", *scaled, axis=t.attrs["dim"]), low.name, high.name]


def translate_quantized_convolution(t: Translation) -> list[str]:
    """Emit ``Conv`` of integers in floats, to int32; a bias is not scaled."""
    x, weight = t.inputs[:2]
    first = 2 if t.attrs["no_bias"] else 3
    _require_bytes(t, 2)
    _check_sums(t, prod(weight.shape[1:]))
    shapes = {"x": x.shape, "weight": weight.shape, "out": t.outputs[0].shape}
    sums = convolve(t, t.attrs, term(t, 0), term(t, 1), shapes).cast("int32")
    if first == 3:
        sums = sums + term(t, 2).cast("int32").reshape((-1, *[1] * (x.rank - 2)))
    return [
        sums.name,
        *product_range(find_magnitude(t, first), 127, find_magnitude(t, first + 2), 127),
    ]


def translate_dense(t: Translation) -> list[str]:
    """Emit ``Gemm`` of integers, to int32; the bias is truncated to the products' steps."""
    x, weight = t.inputs[:2]
    first = 2 if t.attrs["no_bias"] else 3
    _require_bytes(t, 2)
    _check_sums(t, weight.shape[1])
    shape = (x.shape[0], prod(x.shape[1:])) if t.attrs["flatten"] else x.shape
    rows = term(t).reshape(shape) if shape != x.shape else term(t)
    sums = multiply_rows(t, rows, term(t, 1), shape, weight.shape).cast("int32")
    data, other = find_magnitude(t, first), find_magnitude(t, first + 2)
    if first == 3:
        per_unit = divide_or(LEVELS[x.dtype], data, 0) * divide_or(LEVELS["int8"], other, 0)
        scale = per_unit * find_magnitude(t, first + 4) / LEVELS["int8"]  # in MXNet's order
        sums = sums + (term(t, 2).cast("float32") * scale).cast("int32")
    out = sums if len(shape) == 2 else sums.reshape(t.outputs[0].shape)
    return [out.name, *product_range(data, 127 if x.dtype == "int8" else 255, other, 127)]


def _require_bytes(t: Translation, count: int) -> None:
    for x in t.inputs[:count]:
        if x.dtype not in QUANTIZED:
            t.refuse(f"{x.dtype} is not supported, expected {' or '.join(QUANTIZED)}")


def _check_sums(t: Translation, count: int) -> None:
    if count * 255 * 128 >= 1 << 31:
        t.refuse(f"it adds {count} products of integers, which may exceed 32 bits")


TRANSLATIONS = (
    Translator(
        "_contrib_quantize_v2", translate_quantize, "integers of the other dtype are refused"
    ),
    Translator("_contrib_requantize", translate_requantize),
    Translator("_contrib_dequantize", translate_dequantize),
    Translator(
        "_contrib_quantized_act",
        translate_act,
        "an act_type other than relu, which MXNet does not compute, is refused",
    ),
    Translator(
        "_contrib_quantized_flatten",
        lambda t: [t.reshape(t.inputs[0], t.outputs[0].shape), *_ranges(t)],
    ),
    Translator(
        "_contrib_quantized_pooling",
        translate_pool,
        "a pool_type that MXNet does not compute is refused",
    ),
    Translator("_contrib_quantized_concat", translate_concat),
    Translator(
        "_contrib_quantized_conv",
        translate_quantized_convolution,
        "sums that may exceed 32 bits are refused",
    ),
    Translator(
        "_contrib_quantized_fully_connected",
        translate_dense,
        "sums that may exceed 32 bits are refused",
    ),
    *RNN,
    Translator("_contrib_quantize", translate_quantize_in_range),
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
