"""Layers that oneDNN fuses in ONNX: their subgraph in floats; in integers the arithmetic of the kernels in floats."""

from __future__ import annotations

import numpy as np

from graphshare.ops.attention.to_onnx import split_interleaved
from graphshare.ops.kernel import Attrs
from graphshare.ops.onednn.convolution import is_calibrated, split_activations
from graphshare.ops.onednn.dense_to_onnx import translate_dense
from graphshare.ops.onednn.filters import attributes_of
from graphshare.ops.onednn.terms import (
    apply_activations,
    calibration_ends,
    calibration_unit,
    per_unit,
    quantize_bias,
    quantize_weight,
    require_ranges,
    translate_subgraph,
    weight_units,
)
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.quantization.onnx_ranges import constant_end, convolve, largest, product_range, round_to
from graphshare.ops.translation import Translation, Translator, Value


def translate_convolution(t: Translation) -> str | list[str]:
    """Emit the subgraph, or in integers a convolution of integers in floats and what follows it."""
    if not t.attrs["quantized"]:
        return translate_subgraph(t)
    conv, dtype = attributes_of(t.inner, "Convolution"), t.outputs[0].dtype
    (x, weight), rest = t.inputs[:2], [term(t, value) for value in t.inputs[2:]]
    kernel, bias = term(t, weight), None if conv["no_bias"] else rest.pop(0)
    if t.attrs["with_bn"]:
        kernel, bias = _fold_batch_norm(t, kernel, bias, [rest.pop(0) for _ in range(4)])
    other = rest.pop(0) if t.attrs["with_sum"] else None
    data_unit = per_unit(x.dtype, *rest[:2])
    units = weight_units(kernel, weight.rank, bias, data_unit, by_filter=dtype != "int32")
    sums = _convolve(t, conv, kernel, units)
    channels = (1 if dtype == "int32" else weight.shape[0], *[1] * (weight.rank - 2))
    if bias is not None:
        sums = sums + quantize_bias(bias, units, data_unit).reshape((weight.shape[0], *channels[1:]))
    if dtype == "int32":
        reach = kernel.apply("Abs").reduce("ReduceMax", list(range(weight.rank))).reshape((1,))
        ends = product_range(largest(*rest[:2]), 127 if x.dtype == "int8" else 255, reach, 127)
        unit = data_unit * units
    else:
        ends, unit = calibration_ends(t), data_unit.number(calibration_unit(t, dtype))
        sums = sums * (unit / data_unit / units).reshape(channels)
    added = None if other is None else (unit / per_unit(other.dtype, *rest[2:4])) * other.cast("float32")
    out = _apply_activations(t, sums, added)
    # The sum is written over the added array, in its dtype; the bytes are then read as the operator's own dtype.
    written = dtype if other is None or dtype == "int32" else other.dtype
    return [round_to(out, written).cast(dtype).name, *ends]


def _convolve(t: Translation, conv: Attrs, kernel: Term, units: Term) -> Term:
    """Return the sums of products with weights of ``units``; filters of group g get the steps of filter g."""
    (x, weight), groups = t.inputs[:2], conv["num_group"]
    filters, count = weight.shape[0], 1 if t.outputs[0].dtype == "int32" else weight.shape[0]
    if groups > 1 and count > 1:
        numbers = t.integers(np.repeat(np.arange(groups), filters // groups).tolist())
        units = Term(t, t.emit("Gather", units.name, numbers), "float32")
    whole = quantize_weight(kernel, units, (count, *[1] * (weight.rank - 1)))
    return convolve(t, conv, term(t, x), whole, {"x": x.shape, "weight": weight.shape, "out": t.outputs[0].shape})


def _apply_activations(t: Translation, sums: Term, added: Term | None) -> Term:
    """Apply the first activation, add, and apply the second."""
    before, after = split_activations(t.attrs, t.inner)
    if added is None and before and before[0][0] == "clip":
        before = []  # the limit of the dtype clips it
    out = apply_activations(t, before, sums)
    return apply_activations(t, after, out if added is None else out + added)


def _fold_batch_norm(t: Translation, weight: Term, bias: Term | None, statistics: list[Term]) -> tuple[Term, Term]:
    """Return the weight and bias of a convolution with a BatchNorm folded into them."""
    gamma, beta, mean, variance = statistics
    attrs, shape = attributes_of(t.inner, "BatchNorm"), t.inputs[1].shape
    spread = (variance.cast("float64") + attrs["eps"]).apply("Sqrt")
    alpha = ((1 / spread) if attrs["fix_gamma"] else gamma.cast("float64") / spread).cast("float32")
    shift = beta - alpha * mean if bias is None else beta + alpha * (bias - mean)
    return weight * alpha.reshape((shape[0], *[1] * (len(shape) - 1))), shift


def translate_scores(t: Translation) -> str | list[str]:
    """Emit the subgraph, or the scaled products of integer queries and keys."""
    if not t.attrs["quantized"]:
        return translate_subgraph(t)
    require_ranges(t, t.inputs[1:])
    x = t.inputs[0]
    queries, keys, _ = split_interleaved(t, Value(t.cast(x, "float32"), x.shape, "float32"), 3)
    products = Term(t, t.emit("MatMul", queries, t.transpose(keys, (0, 2, 1))), "float32").apply("Round")
    unit = per_unit("int8", term(t, 1), term(t, 2))
    depth = x.shape[2] // 3 // t.attrs["heads"]
    ends = [constant_end(t, 0)] * 2  # MXNet does not read the range: 32-bit scores have the range 0
    return _requantize(t, products, unit * unit, float(np.float32(1) / np.sqrt(np.float32(depth))), ends)


def translate_values(t: Translation) -> str | list[str]:
    """Emit the subgraph, or integer attention applied to integer values."""
    if not t.attrs["quantized"]:
        return translate_subgraph(t)
    require_ranges(t, t.inputs[2:])
    x, attention = t.inputs[:2]
    values = split_interleaved(t, Value(t.cast(x, "float32"), x.shape, "float32"), 3)[2]
    weighted = t.transpose(t.emit("MatMul", t.cast(attention, "float32"), values), (1, 0, 2))
    products = Term(t, t.reshape(weighted, t.outputs[0].shape), "float32")
    ends = [term(t, i) for i in range(2, 6)]
    unit = per_unit("int8", *ends[:2]) * per_unit(attention.dtype, *ends[2:])
    levels = [127 if value.dtype == "int8" else 255 for value in (x, attention)]
    return _requantize(t, products, unit, 1.0, product_range(largest(*ends[:2]), levels[0], largest(*ends[2:]), levels[1]))


def _requantize(t: Translation, products: Term, unit: Term, factor: float, ends: list[str]) -> str | list[str]:
    """Return integer products as floats, in the calibrated range, or as 32-bit integers in the range ``ends``."""
    floats = t.attrs["enable_float_output"]
    if is_calibrated(t.attrs):
        scaled, dtype = products * (unit.number(calibration_unit(t, "int8")) / unit * factor), "int8"
        ends = calibration_ends(t)
    elif floats:
        return (products * (unit.number(1) / unit * factor)).name
    else:
        scaled, dtype = products * factor, "int32"
    return scaled.name if floats else [round_to(scaled, dtype).name, *ends]


_RANGES = "ranges of another dtype than float32 are refused"
_REFUSED = "integers with a PReLU in the subgraph are refused"

TRANSLATIONS = (
    Translator("_sg_mkldnn_conv", translate_convolution, _REFUSED),
    Translator("_sg_mkldnn_fully_connected", translate_dense, f"{_REFUSED}, {_RANGES}"),
    Translator("_sg_mkldnn_selfatt_qk", translate_scores, _RANGES),
    Translator("_sg_mkldnn_selfatt_valatt", translate_values, _RANGES),
)
