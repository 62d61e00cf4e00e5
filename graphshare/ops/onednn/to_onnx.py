"""oneDNN's fused layers in ONNX: their subgraph, or the kernels' integer arithmetic, in floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from graphshare.ops.activation.to_onnx import activate, translate_leaky_relu
from graphshare.ops.kernel import Attrs
from graphshare.ops.matmul.to_onnx import split_interleaved
from graphshare.ops.onednn.convolution import (
    convolution_refusal,
    is_calibrated,
    list_applied_activations,
)
from graphshare.ops.onednn.kernel import ROOM, dense_refusal, is_by_unit, list_activations
from graphshare.ops.onednn.products import LEVELS, Inner, find_attributes
from graphshare.ops.onednn.products import per_unit as kernel_per_unit
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.quantization.to_onnx import (
    constant_end,
    convolve,
    divide_or,
    largest,
    multiply_rows,
    product_range,
    round_to,
)
from graphshare.ops.translation import Translation, Translator, Value

_LARGEST = 2147483647.0
_ROOM = float(1 << 30)

_FUNCTIONS = {"sqrt": "Sqrt", "exp": "Exp", "abs": "Abs"}


def translate_subgraph(t: Translation) -> str:
    """Emit the subgraph in floats."""
    return t.inline(0, t.inputs)[0].name


def calibration_ends(t: Translation) -> list[str]:
    """Return the calibrated range's ends."""
    return [constant_end(t, t.attrs[key]) for key in ("min_calib_range", "max_calib_range")]


def calibration_unit(t: Translation, dtype: str) -> float:
    """Return steps per 1.0 in the calibrated range."""
    return float(
        kernel_per_unit(
            dtype, *(np.float32(t.attrs[key]) for key in ("min_calib_range", "max_calib_range"))
        )
    )


def per_unit(dtype: str, low: Term, high: Term) -> Term:
    """Return steps per 1.0 in a range."""
    if dtype not in LEVELS:
        low.t.refuse(f"its data is {dtype}, expected {' or '.join(LEVELS)}")
    return divide_or(float(LEVELS[dtype]), largest(low, high), _LARGEST)


def weight_units(
    weight: Term, rank: int, bias: Term | None, data_unit: Term, *, by_filter: bool
) -> Term:
    """Emit :func:`graphshare.ops.onednn.products.weight_units`."""
    absolute = weight.apply("Abs")
    if not by_filter:
        return divide_or(
            float(LEVELS["int8"]),
            absolute.reduce("ReduceMax", list(range(rank))).reshape((1,)),
            _LARGEST,
        )
    units = divide_or(
        float(LEVELS["int8"]), absolute.reduce("ReduceMax", list(range(1, rank))), _LARGEST
    )
    if bias is None:
        return units
    room = bias.number(_ROOM) / bias.apply("Abs") / data_unit
    return bias.equals(0).choose(units, units.apply("Min", room))


def quantize_weight(weight: Term, units: Term, shape: Sequence[int]) -> Term:
    """Return int8 weights; ``shape`` broadcasts the units."""
    return round_to(weight * units.reshape(shape), "int8")


def quantize_bias(bias: Term, units: Term, data_unit: Term) -> Term:
    """Return the bias in steps of the products, as float32."""
    return (bias * (units * data_unit)).apply("Round")


def _check(t: Translation, refuses: Callable[[Attrs, Inner], str | None]) -> None:
    if (reason := refuses(t.attrs, t.inner)) is not None:
        t.refuse(reason)


def apply_activations(t: Translation, operators: Sequence[tuple[str, Attrs]], x: Term) -> Term:
    """Apply the activations in order."""
    for name, attrs in operators:
        if name == "Activation":
            x = activate(x, attrs["act_type"])
        elif name == "clip":
            x = x.apply("Clip", 0, attrs["a_max"])
        elif name == "square":
            x = x * x
        elif name in _FUNCTIONS:
            x = x.apply(_FUNCTIONS[name])
        else:
            outputs = translate_leaky_relu(t.derive(attrs, [Value(x.name, (), x.dtype)], []))
            x = Term(t, outputs if isinstance(outputs, str) else outputs[0], x.dtype)
    return x


def translate_convolution(t: Translation) -> str | list[str]:
    """Emit the subgraph, or a convolution of integers in floats and the fused operators."""
    if not t.attrs["quantized"]:
        return translate_subgraph(t)
    _check(t, convolution_refusal)
    conv, dtype = find_attributes(t.inner, "Convolution"), t.outputs[0].dtype
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
        sums = sums + quantize_bias(bias, units, data_unit).reshape(
            (weight.shape[0], *channels[1:])
        )
    if dtype == "int32":
        reach = kernel.apply("Abs").reduce("ReduceMax", list(range(weight.rank))).reshape((1,))
        ends = product_range(largest(*rest[:2]), 127 if x.dtype == "int8" else 255, reach, 127)
        unit = data_unit * units
    else:
        ends, unit = calibration_ends(t), data_unit.number(calibration_unit(t, dtype))
        sums = sums * (unit / data_unit / units).reshape(channels)
    added = None
    if other is not None:
        added = (unit / per_unit(other.dtype, *rest[2:4])) * other.cast("float32")
    out = _add_between_activations(t, sums, added)
    # As in the kernel.
    written = dtype if other is None or dtype == "int32" else other.dtype
    return [round_to(out, written).cast(dtype).name, *ends]


def _convolve(t: Translation, conv: Attrs, kernel: Term, units: Term) -> Term:
    """Filters of group g get the steps of filter g."""
    (x, weight), groups = t.inputs[:2], conv["num_group"]
    filters, count = weight.shape[0], 1 if t.outputs[0].dtype == "int32" else weight.shape[0]
    if groups > 1 and count > 1:
        numbers = t.integers(np.repeat(np.arange(groups), filters // groups).tolist())
        units = Term(t, t.emit("Gather", units.name, numbers), "float32")
    whole = quantize_weight(kernel, units, (count, *[1] * (weight.rank - 1)))
    return convolve(
        t,
        conv,
        term(t, x),
        whole,
        {"x": x.shape, "weight": weight.shape, "out": t.outputs[0].shape},
    )


def _add_between_activations(t: Translation, sums: Term, added: Term | None) -> Term:
    before, after = list_applied_activations(t.attrs, t.inner)
    out = apply_activations(t, before, sums)
    return apply_activations(t, after, out if added is None else out + added)


def _fold_batch_norm(
    t: Translation, weight: Term, bias: Term | None, statistics: list[Term]
) -> tuple[Term, Term]:
    gamma, beta, mean, variance = statistics
    attrs, shape = find_attributes(t.inner, "BatchNorm"), t.inputs[1].shape
    spread = (variance.cast("float64") + attrs["eps"]).apply("Sqrt")
    alpha = ((1 / spread) if attrs["fix_gamma"] else gamma.cast("float64") / spread).cast("float32")
    shift = beta - alpha * mean if bias is None else beta + alpha * (bias - mean)
    return weight * alpha.reshape((shape[0], *[1] * (len(shape) - 1))), shift


def translate_scores(t: Translation) -> str | list[str]:
    """Emit the subgraph, or scaled products of integers."""
    if not t.attrs["quantized"]:
        return translate_subgraph(t)
    x = t.inputs[0]
    queries, keys, _ = split_interleaved(t, Value(t.cast(x, "float32"), x.shape, "float32"), 3)
    products = Term(t, t.emit("MatMul", queries, t.transpose(keys, (0, 2, 1))), "float32").apply(
        "Round"
    )
    unit = per_unit("int8", term(t, 1), term(t, 2))
    depth = x.shape[2] // 3 // t.attrs["heads"]
    if not depth:
        t.refuse("its heads have the width 0")
    ends = [constant_end(t, 0)] * 2  # MXNet does not read the range: 32-bit scores have the range 0
    return _requantize(
        t, products, unit * unit, float(np.float32(1) / np.sqrt(np.float32(depth))), ends
    )


def translate_values(t: Translation) -> str | list[str]:
    """Emit the subgraph, or integer attention."""
    if not t.attrs["quantized"]:
        return translate_subgraph(t)
    x, attention = t.inputs[:2]
    values = split_interleaved(t, Value(t.cast(x, "float32"), x.shape, "float32"), 3)[2]
    weighted = t.transpose(t.emit("MatMul", t.cast(attention, "float32"), values), (1, 0, 2))
    products = Term(t, t.reshape(weighted, t.outputs[0].shape), "float32")
    ends = [term(t, i) for i in range(2, 6)]
    unit = per_unit("int8", *ends[:2]) * per_unit(attention.dtype, *ends[2:])
    levels = [127 if value.dtype == "int8" else 255 for value in (x, attention)]
    return _requantize(
        t,
        products,
        unit,
        1.0,
        product_range(largest(*ends[:2]), levels[0], largest(*ends[2:]), levels[1]),
    )


def _requantize(
    t: Translation, products: Term, unit: Term, factor: float, ends: list[str]
) -> str | list[str]:
    floats = t.attrs["enable_float_output"]
    if is_calibrated(t.attrs):
        scaled, dtype = (
            products * (unit.number(calibration_unit(t, "int8")) / unit * factor),
            "int8",
        )
        ends = calibration_ends(t)
    elif floats:
        return (products * (unit.number(1) / unit * factor)).name
    else:
        scaled, dtype = products * factor, "int32"
    return scaled.name if floats else [round_to(scaled, dtype).name, *ends]


_REFUSED = "integers with activations in the subgraph that oneDNN does not compute are refused"


def translate_dense(t: Translation) -> str | list[str]:
    """Emit the subgraph, or products of integers in floats and the fused operators."""
    if not t.attrs["quantized"]:
        return translate_subgraph(t)
    _check(t, dense_refusal)
    dense, dtype = find_attributes(t.inner, "FullyConnected"), t.outputs[0].dtype
    (x, weight), rest = t.inputs[:2], [term(t, value) for value in t.inputs[2:]]
    bias = None if dense["no_bias"] else rest.pop(0)
    data_unit = per_unit(x.dtype, *rest[:2])
    if is_by_unit(t.attrs):
        units = weight_units(term(t, weight), 2, bias, data_unit, by_filter=True)
        whole = quantize_weight(term(t, weight), units, (weight.shape[0], 1))
        addend = None if bias is None else quantize_bias(bias, units, data_unit)
    else:
        whole, units, addend = _scale_weights(term(t, weight), bias, data_unit, rest[2:])
    shape = (x.shape[0], prod(x.shape[1:])) if dense["flatten"] else x.shape
    rows = Term(t, t.reshape(x, shape), x.dtype)
    sums = multiply_rows(t, rows, whole, shape, weight.shape).cast("float32")
    if addend is not None:
        sums = sums + addend
    follow = list_activations(t.attrs, t.inner)

    def follow_up(values: Term) -> Term:
        return apply_activations(t, follow, values)

    def to_output(values: Term) -> str:
        return values.name if len(shape) == 2 else values.reshape(t.outputs[0].shape).name

    if dtype == "int32":
        # As in the kernel.
        ends = product_range(
            largest(*rest[:2]), 127, largest(*rest[2:4]), 127 if x.dtype == "int8" else 255
        )
        return [to_output(round_to(follow_up(sums), dtype)), *ends]
    if not is_calibrated(t.attrs):
        return to_output(follow_up(sums * (1 / data_unit / units)))
    unit = calibration_unit(t, dtype if dtype != "float32" else "uint8")
    scale = data_unit.number(1 if follow else unit)
    out = follow_up(sums * (scale / data_unit / units))
    if follow:
        out = out * unit
    if dtype == "float32":
        return to_output(out)
    return [to_output(round_to(out, dtype)), *calibration_ends(t)]


def _scale_weights(
    weight: Term, bias: Term | None, data_unit: Term, ends: Sequence[Term]
) -> tuple[Term, Term, Term | None]:
    """Emit the kernel's ``_scale_weights``."""
    unit = per_unit("int8", *ends[:2])
    if bias is None:
        return weight, unit, None
    bias_unit = per_unit("int8", *ends[2:4])
    factor, room = (
        data_unit * unit / bias_unit,
        unit.number(float(ROOM)) / largest(*ends[2:4]) / bias_unit,
    )
    smaller = (factor > room).choose(room * bias_unit / data_unit / unit, 1)
    whole = (weight.cast("float64") * smaller.cast("float64")).round_half_away()
    return (
        whole,
        unit * smaller,
        (bias.cast("float32") * factor.apply("Min", room)).round_half_away(),
    )


TRANSLATIONS = (
    Translator("_sg_mkldnn_conv", translate_convolution, _REFUSED),
    Translator("_sg_mkldnn_fully_connected", translate_dense, _REFUSED),
    Translator("_sg_mkldnn_selfatt_qk", translate_scores),
    Translator("_sg_mkldnn_selfatt_valatt", translate_values),
)
