"""Dense layers and self-attention as oneDNN fuses them, and tables of all its layers. No gradients.

A subgraph is computed in floats, or as one scaled product in 8-bit integers. Weights and bias of an
integer dense layer are integers with one range each, or, with ``channel_wise_quantize``, floats
that the operator quantizes per unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphshare.ops.gradient import no_gradient
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Bodies,
    Context,
    Cost,
    Forward,
    Kernel,
    ShapeRule,
    Shapes,
    Types,
)
from graphshare.ops.limits import require
from graphshare.ops.matmul.attention import (
    self_scores_cost,
    self_scores_shapes,
    self_values_shapes,
    split_interleaved,
    values_cost,
)
from graphshare.ops.matmul.kernel import fully_connected_cost
from graphshare.ops.onednn.convolution import KERNELS as CONVOLUTION_KERNELS
from graphshare.ops.onednn.convolution import activate, is_calibrated, make_fused_kernel, refusal
from graphshare.ops.onednn.products import (
    Inner,
    find_attributes,
    per_unit,
    quantize_bias,
    quantize_weight,
    weight_units,
)
from graphshare.ops.quantization.kernel import find_magnitude, product_range, range_end, round_to
from graphshare.ops.roi.kernel import round_half_away

ROOM = np.float32((1 << 30) - 1)  # half of the largest integer, truncated
POINTWISE = {"square": np.square, "sqrt": np.sqrt, "exp": np.exp, "abs": np.abs}
ACTIVATIONS = ("Activation", "LeakyReLU", "clip", *POINTWISE)


def is_by_unit(attrs: Attrs) -> bool:
    """Whether the operator quantizes weights itself, per unit."""
    return attrs["channel_wise_quantize"] is not None


def list_activations(attrs: Attrs, inner: Inner) -> list[tuple[str, Attrs]]:
    """Return the fused elementwise functions."""
    return [item for item in inner if item[0] in ACTIVATIONS] if attrs["with_eltwise"] else []


def _output_dtype(attrs: Attrs, inner: Inner) -> str:
    """The dtype is uint8 if the activation is never negative."""
    if attrs["enable_float_output"]:
        return "float32"
    if not is_calibrated(attrs):
        return "int32"
    positive = any(
        name in ("clip", *POINTWISE)
        or activation.get("act_type") in ("relu", "sigmoid", "softrelu", "leaky")
        for name, activation in list_activations(attrs, inner)[:1]
    )
    return "uint8" if positive else "int8"


def dense_integers(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """Compute the dense layer and an elementwise function as the flags state."""
    inner = context.inner
    dense = find_attributes(inner, "FullyConnected")
    x, weight, *rest = inputs
    bias = None if dense["no_bias"] else rest.pop(0)
    data_unit, dtype = per_unit(str(x.dtype), *rest[:2]), _output_dtype(attrs, inner)
    if is_by_unit(attrs):
        units = weight_units(weight, bias, data_unit, by_filter=True)
        whole = quantize_weight(weight, units)
        term = None if bias is None else quantize_bias(bias, units, data_unit)
    else:
        whole, units, term = _scale_weights(weight, bias, data_unit, rest[2:])
    rows = x.reshape(len(x), -1) if dense["flatten"] else x
    # float64 adds products of 8 bits exactly.
    sums = np.matmul(rows.astype(np.float64), whole.T).astype(np.float32)
    if term is not None:
        sums += term.astype(np.float32)
    follow = list_activations(attrs, inner)
    if dtype == "int32":
        # oneDNN reads the data's range as int8, the weights' in the data's dtype.
        ends = product_range(
            find_magnitude(*rest[:2]),
            127,
            find_magnitude(*rest[2:4]),
            127 if x.dtype == np.int8 else 255,
        )
        return round_to(_apply_activations(follow, sums), dtype), *ends
    if dtype == "float32" and not is_calibrated(attrs):
        return _apply_activations(follow, sums * (np.float32(1) / data_unit / units))
    low, high = np.float32(attrs["min_calib_range"]), np.float32(attrs["max_calib_range"])
    unit = per_unit(dtype if dtype != "float32" else "uint8", low, high)
    # A fused function applies to floats, before scaling to the result's steps.
    scale = np.float32(1) if follow else unit
    out: Array = _apply_activations(follow, sums * (scale / data_unit / units))
    if follow:
        out *= unit
    if dtype == "float32":
        return out
    return round_to(out, dtype), range_end(low), range_end(high)


def _scale_weights(
    weight: Array, bias: Array | None, data_unit: Any, ends: Sequence[Array]
) -> tuple[Array, Array, Array | None]:
    """Return integer weights, steps per 1.0, and the bias in the products' steps.

    Weights are scaled down where the bias would overflow.
    """
    unit, whole = per_unit("int8", *ends[:2]), weight.astype(np.float64)
    if bias is None:
        return whole, np.array([unit], np.float32), None
    bias_unit = per_unit("int8", *ends[2:4])
    factor = data_unit * unit / bias_unit
    reach = np.float32(max(abs(float(end.ravel()[0])) for end in ends[2:4]))
    with np.errstate(divide="ignore"):
        largest = ROOM / reach / bias_unit
    if factor > largest:
        factor = largest
        smaller = factor * bias_unit / data_unit / unit
        whole = round_half_away(whole * np.float64(smaller))
        unit = unit * smaller
    return whole, np.array([unit], np.float32), round_half_away(bias * factor)


def _apply_activations(operators: Inner, x: Array) -> Array:
    for name, attrs in operators:
        x = POINTWISE[name](x) if name in POINTWISE else activate([(name, attrs)], x)
    return x


def _layer_inputs(bodies: Bodies) -> int:
    return 2 if find_attributes(bodies.operators(0), "FullyConnected")["no_bias"] else 3


def _dense_types(
    attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies
) -> tuple[Types, Types]:
    ranged = is_calibrated(attrs) or attrs["enable_float_output"]
    require(
        ranged or not is_by_unit(attrs),
        "channel_wise_quantize needs min_calib_range and max_calib_range, or floats as output",
    )
    layer = _layer_inputs(bodies) - 1
    weights = ["float32" if is_by_unit(attrs) else "int8"] * layer
    dtypes = [inputs[0], *weights, *["float32"] * (len(inputs) - layer - 1)]
    return dtypes, [_output_dtype(attrs, bodies.operators(0)), *["float32"] * (len(outputs) - 1)]


def dense_refusal(attrs: Attrs, inner: Inner) -> str | None:
    """Return why a dense layer cannot compute integers."""
    return refusal(inner, "FullyConnected", ("FullyConnected", *ACTIVATIONS))


def scores(
    context: Context, attrs: Attrs, projected: Array, low: Array, high: Array
) -> Array | tuple[Array, ...]:
    """Return products of queries and keys: (batch * heads, length, length)."""
    queries, keys, _ = split_interleaved(attrs, projected.astype(np.float64), 3)
    require(queries.shape[-1], "heads of width 0 have no scores")
    unit = per_unit("int8", low, high)
    products = np.matmul(queries, keys.swapaxes(1, 2)).astype(np.float32)
    factor = np.float32(1) / np.sqrt(np.float32(queries.shape[-1]))
    # MXNet does not read the range: 32-bit scores have the range 0
    no_range = (projected, np.zeros(1), np.zeros(1))
    return _requantize(attrs, products, unit * unit, factor, no_range, no_range)


def apply_attention(
    context: Context, attrs: Attrs, projected: Array, attention: Array, *ends: Array
) -> Array | tuple[Array, ...]:
    """Apply the attention to the values: (length, batch, heads * depth)."""
    values = split_interleaved(attrs, projected.astype(np.float64), 3)[2]
    products = np.matmul(attention.astype(np.float64), values).swapaxes(0, 1)
    rows = np.ascontiguousarray(products).reshape(
        len(products), -1, attrs["heads"] * values.shape[-1]
    )
    unit = per_unit("int8", *ends[:2]) * per_unit(str(attention.dtype), *ends[2:4])
    ranges = ((projected, *ends[:2]), (attention, *ends[2:4]))
    return _requantize(attrs, rows.astype(np.float32), unit, np.float32(1), *ranges)


def _requantize(
    attrs: Attrs, products: Array, unit: Any, factor: Any, *ranged: Sequence[Array]
) -> Array | tuple[Array, ...]:
    """Return products as floats, as integers in the calibrated range, or as 32-bit integers."""
    if is_calibrated(attrs):
        low, high = np.float32(attrs["min_calib_range"]), np.float32(attrs["max_calib_range"])
        scaled = products * np.float32(per_unit("int8", low, high) / unit * factor)
        dtype = "int8"
    elif attrs["enable_float_output"]:
        return np.asarray(products * np.float32(np.float32(1) / unit * factor))
    else:
        reaches = [
            (find_magnitude(*ends), 127 if x.dtype == np.int8 else 255) for x, *ends in ranged
        ]
        (low, high), scaled, dtype = (
            product_range(*reaches[0], *reaches[1]),
            products * factor,
            "int32",
        )
    if attrs["enable_float_output"]:
        return np.asarray(scaled)
    return round_to(scaled, dtype), range_end(low), range_end(high)


def _attention_kernel(
    operator: str, integers: Forward, arrays: Types, shapes: ShapeRule, cost: Cost
) -> Kernel:
    """Quantized ``arrays`` have these dtypes; their ranges' ends follow."""

    def types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
        known = [*arrays, *["float32"] * (2 * len(arrays))]
        if attrs["enable_float_output"]:
            return known, ["float32"]
        return known, ["int8" if is_calibrated(attrs) else "int32", "float32", "float32"]

    def own_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        require(attrs["heads"] > 0, f"heads is {attrs['heads']}, expected at least 1")
        return shapes(attrs, inputs, outputs)

    return make_fused_kernel(
        operator, integers, lambda *_: len(arrays), types, cost, shapes=own_shapes
    )


KERNELS = (
    *CONVOLUTION_KERNELS,
    make_fused_kernel(
        "_sg_mkldnn_fully_connected",
        dense_integers,
        lambda attrs, inputs, bodies: _layer_inputs(bodies),
        _dense_types,
        fully_connected_cost,
        dense_refusal,
    ),
    _attention_kernel(
        "_sg_mkldnn_selfatt_qk", scores, ["int8"], self_scores_shapes, self_scores_cost
    ),
    _attention_kernel(
        "_sg_mkldnn_selfatt_valatt",
        apply_attention,
        ["int8", "uint8"],
        self_values_shapes,
        values_cost,
    ),
)

GRADIENTS = (
    *no_gradient(
        "quantized layers are for inference",
        *"_sg_mkldnn_conv _sg_mkldnn_fully_connected _sg_mkldnn_selfatt_qk _sg_mkldnn_selfatt_valatt".split(),
    ),
)
