"""Dense layers that oneDNN fuses, in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from graphshare.ops.onednn.convolution import is_calibrated
from graphshare.ops.onednn.dense import ACTIVATIONS, ROOM, is_by_unit
from graphshare.ops.onednn.filters import attributes_of
from graphshare.ops.onednn.terms import (
    apply_activations,
    calibration_ends,
    calibration_unit,
    per_unit,
    quantize_bias,
    quantize_weight,
    require_ranges,
    round_half_away,
    translate_subgraph,
    weight_units,
)
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.quantization.onnx_ranges import largest, multiply_rows, product_range, round_to
from graphshare.ops.translation import Translation


def translate_dense(t: Translation) -> str | list[str]:
    """Emit the subgraph, or in integers products of integers in floats and what follows them."""
    if not t.attrs["quantized"]:
        return translate_subgraph(t)
    dense, dtype = attributes_of(t.inner, "FullyConnected"), t.outputs[0].dtype
    require_ranges(t, t.inputs[2 if dense["no_bias"] else 3 :])
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
    rows = term(t, x) if shape == x.shape else term(t, x).reshape(shape)
    sums = multiply_rows(t, rows, whole, shape, weight.shape).cast("float32")
    if addend is not None:
        sums = sums + addend
    follow = [item for item in t.inner if item[0] in ACTIVATIONS] if t.attrs["with_eltwise"] else []

    def follow_up(values: Term) -> Term:
        return apply_activations(t, follow, values)

    def to_output(values: Term) -> str:
        return values.name if len(shape) == 2 else values.reshape(t.outputs[0].shape).name

    if dtype == "int32":
        # oneDNN reads the data's range as one of int8, and that of the weights as one of the data's dtype.
        ends = product_range(largest(*rest[:2]), 127, largest(*rest[2:4]), 127 if x.dtype == "int8" else 255)
        return [to_output(round_to(follow_up(sums), dtype)), *ends]
    if not is_calibrated(t.attrs):
        return to_output(follow_up(sums * (1 / data_unit / units)))
    unit = calibration_unit(t, dtype if dtype != "float32" else "uint8")
    scale = data_unit.number(1 if follow else unit)
    out = follow_up(sums * (scale / data_unit / units))
    out = out * unit if follow else out
    return to_output(out) if dtype == "float32" else [to_output(round_to(out, dtype)), *calibration_ends(t)]


def _scale_weights(weight: Term, bias: Term | None, data_unit: Term, ends: Sequence[Term]) -> tuple[Term, Term, Term | None]:
    """Return integer weights, their steps per 1.0, and the bias rescaled to the steps of the products.

    Where the bias would overflow, the weights are scaled down.
    """
    unit = per_unit("int8", *ends[:2])
    if bias is None:
        return weight, unit, None
    bias_unit = per_unit("int8", *ends[2:4])
    factor, room = data_unit * unit / bias_unit, unit.number(float(ROOM)) / largest(*ends[2:4]) / bias_unit
    smaller = (factor > room).choose(room * bias_unit / data_unit / unit, 1)
    whole = round_half_away(weight.cast("float64") * smaller.cast("float64"))
    return whole, unit * smaller, round_half_away(bias.cast("float32") * factor.apply("Min", room))
