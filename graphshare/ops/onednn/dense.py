"""Dense layers as oneDNN fuses them with the layers that follow: in floats, and in 8-bit integers.

Weights and bias of an integer layer are integers of one range each, or, with ``channel_wise_quantize``, floats that the
operator quantizes by unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Bodies, Context, Kernel, Shapes, Types
from graphshare.ops.matmul.kernel import fully_connected_cost
from graphshare.ops.onednn.convolution import activate, is_calibrated, refusal, run_body
from graphshare.ops.onednn.filters import Inner, attributes_of, per_unit, quantize_bias, quantize_weight, weight_units
from graphshare.ops.quantization.ranges import range_end, round_to, with_ranges
from graphshare.ops.roi.kernel import round_half_away
from graphshare.ops.unification import infer_nothing

ROOM = np.float32((1 << 30) - 1)  # half of the largest integer, truncated
POINTWISE = {"square": np.square, "sqrt": np.sqrt, "exp": np.exp, "abs": np.abs}
ACTIVATIONS = ("Activation", "LeakyReLU", "clip", *POINTWISE)


def fused_dense(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """Compute the dense layer, then an elementwise function as the flags state."""
    if attrs["quantized"]:
        return _integer_dense(attrs, context.inner, inputs)
    return run_body(context, inputs)


def is_by_unit(attrs: Attrs) -> bool:
    """Return whether the operator quantizes its weights itself, by unit."""
    return attrs["channel_wise_quantize"] is not None


def _output_dtype(attrs: Attrs, inner: Inner) -> str:
    """Return the dtype of an integer layer: uint8 where its activation is never negative."""
    if attrs["enable_float_output"]:
        return "float32"
    if not is_calibrated(attrs):
        return "int32"
    last = [(name, of) for name, of in inner if name in ACTIVATIONS] if attrs["with_eltwise"] else []
    positive = last and (
        last[0][0] in ("clip", *POINTWISE) or last[0][1].get("act_type") in ("relu", "sigmoid", "softrelu", "leaky")
    )
    return "uint8" if positive else "int8"


def _integer_dense(attrs: Attrs, inner: Inner, inputs: Sequence[Array]) -> Array | tuple[Array, ...]:
    dense = attributes_of(inner, "FullyConnected")
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
    sums = np.matmul(rows.astype(np.float64), whole.T).astype(np.float32)
    if term is not None:
        sums += term.astype(np.float32)
    follow = [item for item in inner if item[0] in ACTIVATIONS] if attrs["with_eltwise"] else []
    if dtype == "int32":
        low, high = _products_range(x.dtype, rest)
        return round_to(_apply_activations(follow, sums), dtype), range_end(low), range_end(high)
    if dtype == "float32" and not is_calibrated(attrs):
        return _apply_activations(follow, sums * (np.float32(1) / data_unit / units))
    low, high = np.float32(attrs["min_calib_range"]), np.float32(attrs["max_calib_range"])
    unit = per_unit(dtype if dtype != "float32" else "uint8", low, high)
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
    """Return integer weights, their steps per 1.0, and the bias rescaled to the steps of the products.

    Where the bias would overflow, the weights are scaled down.
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


def _products_range(dtype: Any, ends: Sequence[Array]) -> tuple[Any, Any]:
    # oneDNN reads the data's range as one of int8, and that of the weights as one of the data's dtype.
    data, weight = (np.float32(max(abs(float(x.ravel()[0])) for x in pair)) for pair in (ends[:2], ends[2:4]))
    levels = np.float32(127 if dtype == np.int8 else 255)
    high = data / np.float32(127) * (weight / levels) * np.float32(1 << 31)
    return -high, high


def _apply_activations(operators: Inner, x: Array) -> Array:
    for name, attrs in operators:
        x = POINTWISE[name](x) if name in POINTWISE else activate([(name, attrs)], x)
    return x


def _dense_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
    """Infer the shapes inside the subgraph; ranges have one element."""
    return with_ranges(bodies.shapes(0, inputs[: _layer_inputs(bodies)], outputs[:1]), inputs, outputs)


def _layer_inputs(bodies: Bodies) -> int:
    return 2 if attributes_of(bodies.operators(0), "FullyConnected")["no_bias"] else 3


def _dense_types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
    """Infer int8 weights and bias of an integer layer, float32 where the operator quantizes them."""
    if not attrs["quantized"]:
        return bodies.types(0, inputs, outputs)
    layer = _layer_inputs(bodies) - 1
    weights = ["float32" if is_by_unit(attrs) else "int8"] * layer
    dtypes = [inputs[0], *weights, *["float32"] * (len(inputs) - layer - 1)]
    return dtypes, [_output_dtype(attrs, bodies.operators(0)), *["float32"] * (len(outputs) - 1)]


def _dense_refusal(attrs: Attrs, bodies: Bodies) -> str | None:
    return refusal(attrs, bodies, "FullyConnected", ("FullyConnected", *ACTIVATIONS))


KERNELS = (
    Kernel(
        "_sg_mkldnn_fully_connected",
        fused_dense,
        infer_nothing,
        infer_nothing,
        body_shapes=_dense_shapes,
        body_types=_dense_types,
        refuses=_dense_refusal,
        cost=fully_connected_cost,
    ),
)
