"""Layers of 8-bit integers in ONNX: the arithmetic of the kernels in floats, rounded by ``QuantizeLinear``."""

from __future__ import annotations

from math import prod

import numpy as np

from graphshare.ops.kernel import Attrs
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.pooling.kernel import axes_and_window
from graphshare.ops.pooling.to_onnx import translate_pooling
from graphshare.ops.quantization.elementwise_to_onnx import TRANSLATIONS as ELEMENTWISE
from graphshare.ops.quantization.onnx_ranges import (
    constant_end,
    convolve,
    divide_or,
    largest,
    multiply_rows,
    product_range,
    reach_of,
    round_to,
)
from graphshare.ops.quantization.ranges import ENDS, WHOLE_RANGES, calibration_range
from graphshare.ops.quantization.rnn_to_onnx import TRANSLATIONS as RNN
from graphshare.ops.translation import Translation, Translator, Value

_LEVELS = {"int8": 127.5, "uint8": 255.5, "int32": 2147483648.0}


def translate_quantize(t: Translation) -> list[str]:
    """Emit a product with the steps per 1.0, and ``QuantizeLinear``; without calibration the range is that of the data."""
    x, dtype = term(t), t.outputs[0].dtype
    calibrated = calibration_range(t.attrs)
    if not x.is_float:
        if x.dtype != dtype:
            t.refuse(f"its data is {x.dtype} and its result {dtype}")
        return [x.name, *(constant_end(t, end) for end in calibrated or WHOLE_RANGES[dtype])]
    if calibrated:
        reach = float(np.float32(max(map(abs, calibrated))))
        ends = (-reach, reach) if dtype == "int8" else calibrated
        unit = float(np.float32(_LEVELS[dtype] / reach)) if reach else np.inf
        return [round_to(x * unit, dtype, may_be_nan=True).name, *(constant_end(t, end) for end in ends)]
    axes = list(range(t.inputs[0].rank))
    low, high = (x.reduce(op, axes).reshape((1,)) for op in ("ReduceMin", "ReduceMax"))
    widest = largest(low, high)
    whole = round_to(x * divide_or(_LEVELS[dtype], widest, np.inf), dtype, may_be_nan=True)
    if dtype == "int8":
        low, high = -widest, widest
    return [whole.name, low.name, high.name]


def translate_dequantize(t: Translation) -> str:
    """Emit ``DequantizeLinear``."""
    x = t.inputs[0]
    step = (reach_of(t, 1) / _LEVELS[x.dtype]).reshape(())
    return t.emit("DequantizeLinear", x, step.name, t.number(0, x.dtype))


def translate_requantize(t: Translation) -> list[str]:
    """Emit a change of steps of 32-bit sums in float32; nothing represents a range of 0."""
    x, dtype = term(t).cast("float32"), t.outputs[0].dtype
    unit = reach_of(t, 1) / _LEVELS["int32"]
    calibrated = calibration_range(t.attrs)
    if calibrated:
        reach = Term(t, constant_end(t, max(map(abs, calibrated))), "float32")
    else:
        axes = list(range(t.inputs[0].rank))
        low, high = (x.reduce(op, axes).reshape((1,)) * unit for op in ("ReduceMin", "ReduceMax"))
        reach = largest(low, high)
    scaled = x * (unit * (ENDS[dtype][1] / reach))
    begin = reach * 0.0 if dtype == "uint8" else -reach
    return [round_to(scaled, dtype, may_be_nan=True).name, begin.name, reach.name]


def translate_act(t: Translation) -> list[str]:
    """Emit ``Clip`` from 0 to 127, as int8."""
    if t.attrs["act_type"] != "relu":
        t.refuse(f"it has the act_type {t.attrs['act_type']}, and MXNet computes only relu of integers")
    return [term(t).apply("Clip", 0, 127).cast("int8").name, *_ranges(t)]


def translate_flatten(t: Translation) -> list[str]:
    """Emit ``Reshape`` to rows."""
    return [t.reshape(t.inputs[0], t.outputs[0].shape), *_ranges(t)]


def _ranges(t: Translation) -> list[str]:
    return [x.name for x in t.inputs[1:3]]


def translate_pool(t: Translation) -> list[str]:
    """Emit the pooling of float32, which holds the integers; means are rounded."""
    x, kind = t.inputs[0], t.attrs["pool_type"]
    if kind not in ("max", "avg"):
        t.refuse(f"it has the pool_type {kind}, and MXNet computes only max and avg of integers")
    attrs = {**t.attrs, "pooling_convention": "full"} if t.attrs["pooling_convention"] == "same" else t.attrs
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
        cells = prod(x.shape[axis] for axis in axes) if attrs["global_pool"] else prod(window.kernel)
        means = pool({"pool_type": "sum"}).apply("Round") / float(cells)
    return [round_to(means, x.dtype).name, *_ranges(t)]


def translate_concat(t: Translation) -> list[str]:
    """Emit ``Concat`` of integers in steps of the widest of the ranges."""
    count, dtype = t.attrs["num_args"], t.outputs[0].dtype
    lows, highs = ([term(t, i) for i in range(count + side, len(t.inputs), 2)] for side in (0, 1))
    low, high = lows[0].apply("Min", 0, *lows[1:]), highs[0].apply("Max", 0, *highs[1:])
    wide = largest(low, high).cast("float64") / _LEVELS[dtype]
    scaled = []
    for i, x in enumerate(t.inputs[:count]):
        ratio = largest(lows[i], highs[i]).cast("float64") / _LEVELS[x.dtype] / wide
        factor = wide.equals(0).choose(wide.number(1), ratio).cast("float32")
        scaled.append(round_to(term(t, x).cast("float32") * factor, dtype).name)
    return [t.emit("Concat", *scaled, axis=t.attrs["dim"]), low.name, high.name]


def translate_convolution(t: Translation) -> list[str]:
    """Emit ``Conv`` of integers in floats, to int32; the integers of a bias are added without scaling."""
    x, weight = t.inputs[:2]
    first = 2 if t.attrs["no_bias"] else 3
    _check_sums(t, prod(weight.shape[1:]))
    shapes = {"x": x.shape, "weight": weight.shape, "out": t.outputs[0].shape}
    sums = convolve(t, t.attrs, term(t, 0), term(t, 1), shapes).cast("int32")
    if first == 3:
        sums = sums + term(t, 2).cast("int32").reshape((-1, *[1] * (x.rank - 2)))
    return [sums.name, *product_range(reach_of(t, first), 127, reach_of(t, first + 2), 127)]


def translate_dense(t: Translation) -> list[str]:
    """Emit ``Gemm`` of integers in floats, to int32; the bias is rescaled to the steps of the products and truncated."""
    x, weight = t.inputs[:2]
    first = 2 if t.attrs["no_bias"] else 3
    _check_sums(t, weight.shape[1])
    shape = (x.shape[0], prod(x.shape[1:])) if t.attrs["flatten"] else x.shape
    rows = term(t).reshape(shape) if shape != x.shape else term(t)
    sums = multiply_rows(t, rows, term(t, 1), shape, weight.shape).cast("int32")
    data, other = reach_of(t, first), reach_of(t, first + 2)
    if first == 3:
        per_unit = divide_or(_LEVELS[x.dtype], data, 0) * divide_or(_LEVELS["int8"], other, 0)
        scale = per_unit * reach_of(t, first + 4) / _LEVELS["int8"]  # in MXNet's order
        sums = sums + (term(t, 2).cast("float32") * scale).cast("int32")
    out = sums if len(shape) == 2 else sums.reshape(t.outputs[0].shape)
    return [out.name, *product_range(data, 127 if x.dtype == "int8" else 255, other, 127)]


def _check_sums(t: Translation, count: int) -> None:
    if count * 255 * 128 >= 1 << 31:
        t.refuse(f"it adds {count} products of integers, which may exceed 32 bits")


TRANSLATIONS = (
    Translator("_contrib_quantize_v2", translate_quantize, "integers of the other dtype are refused"),
    Translator("_contrib_requantize", translate_requantize),
    Translator("_contrib_dequantize", translate_dequantize),
    Translator(
        "_contrib_quantized_act", translate_act, "an act_type other than relu, which MXNet does not compute, is refused"
    ),
    Translator("_contrib_quantized_flatten", translate_flatten),
    Translator("_contrib_quantized_pooling", translate_pool, "a pool_type that MXNet does not compute is refused"),
    Translator("_contrib_quantized_concat", translate_concat),
    Translator("_contrib_quantized_conv", translate_convolution, "sums that may exceed 32 bits are refused"),
    Translator("_contrib_quantized_fully_connected", translate_dense, "sums that may exceed 32 bits are refused"),
    *RNN,
    *ELEMENTWISE,
)
