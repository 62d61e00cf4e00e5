"""Layers as oneDNN fuses them: self-attention, and the tables of all of them. They have no gradients.

The subgraph is computed in floats, or one scaled product in 8-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphshare.ops.gradient import no_gradient
from graphshare.ops.kernel import Array, Attrs, Bodies, Context, Kernel, Shapes, Types
from graphshare.ops.matmul.attention import self_scores_cost, split_interleaved, values_cost
from graphshare.ops.onednn.convolution import KERNELS as CONVOLUTION_KERNELS
from graphshare.ops.onednn.convolution import is_calibrated, run_body
from graphshare.ops.onednn.dense import KERNELS as DENSE_KERNELS
from graphshare.ops.onednn.filters import per_unit
from graphshare.ops.quantization.ranges import range_end, round_to, with_ranges
from graphshare.ops.unification import infer_nothing


def scores(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """Return the products of queries and keys: (batch * heads, length, length)."""
    if not attrs["quantized"]:
        return run_body(context, inputs)
    projected, low, high = inputs
    queries, keys, _ = split_interleaved(attrs, projected.astype(np.float64), 3)
    unit = per_unit("int8", low, high)
    products = np.matmul(queries, keys.swapaxes(1, 2)).astype(np.float32)
    factor = np.float32(1) / np.sqrt(np.float32(queries.shape[-1]))
    no_range = (projected, np.zeros(1), np.zeros(1))  # MXNet does not read the range: 32-bit scores have the range 0
    return _requantize(attrs, products, unit * unit, factor, no_range, no_range)


def apply_attention(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """Return the attention applied to the values: (length, batch, heads * depth)."""
    if not attrs["quantized"]:
        return run_body(context, inputs)
    projected, attention, *ends = inputs
    values = split_interleaved(attrs, projected.astype(np.float64), 3)[2]
    products = np.matmul(attention.astype(np.float64), values).swapaxes(0, 1)
    rows = np.ascontiguousarray(products).reshape(len(products), -1, attrs["heads"] * values.shape[-1])
    unit = per_unit("int8", *ends[:2]) * per_unit(str(attention.dtype), *ends[2:4])
    ranges = ((projected, *ends[:2]), (attention, *ends[2:4]))
    return _requantize(attrs, rows.astype(np.float32), unit, np.float32(1), *ranges)


def _requantize(attrs: Attrs, products: Array, unit: Any, factor: Any, *ranged: Sequence[Array]) -> Array | tuple[Array, ...]:
    """Return integer products as floats, in the calibrated range, or as 32-bit integers."""
    if is_calibrated(attrs):
        low, high = np.float32(attrs["min_calib_range"]), np.float32(attrs["max_calib_range"])
        scaled = products * np.float32(per_unit("int8", low, high) / unit * factor)
        dtype = "int8"
    elif attrs["enable_float_output"]:
        return np.asarray(products * np.float32(np.float32(1) / unit * factor))
    else:
        steps = [max(abs(float(end.ravel()[0])) for end in ends) / (127 if x.dtype == np.int8 else 255) for x, *ends in ranged]
        high = np.float32(np.float32(steps[0]) * np.float32(steps[1]) * np.float32(1 << 31))
        low, scaled, dtype = -high, products * factor, "int32"
    if attrs["enable_float_output"]:
        return np.asarray(scaled)
    return round_to(scaled, dtype), range_end(low), range_end(high)


def _rules(arrays: int) -> tuple[Any, Any]:
    """Return the shape and dtype rules of an operator of ``arrays`` arrays; integers have two ends of a range each."""

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
        return with_ranges(bodies.shapes(0, inputs[:arrays], outputs[:1]), inputs, outputs)

    def types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
        if not attrs["quantized"]:
            return bodies.types(0, inputs, outputs)
        known = [*inputs[:arrays], *["float32"] * (2 * arrays)]
        if attrs["enable_float_output"]:
            return known, ["float32"]
        return known, ["int8" if is_calibrated(attrs) else "int32", "float32", "float32"]

    return shapes, types


KERNELS = (
    *CONVOLUTION_KERNELS,
    *DENSE_KERNELS,
    *(
        Kernel(operator, forward, infer_nothing, infer_nothing, body_shapes=rules[0], body_types=rules[1], cost=cost)
        for operator, forward, rules, cost in (
            ("_sg_mkldnn_selfatt_qk", scores, _rules(1), self_scores_cost),
            ("_sg_mkldnn_selfatt_valatt", apply_attention, _rules(2), values_cost),
        )
    ),
)

GRADIENTS = (
    *no_gradient(
        "quantized layers are for inference",
        *"_sg_mkldnn_conv _sg_mkldnn_fully_connected _sg_mkldnn_selfatt_qk _sg_mkldnn_selfatt_valatt".split(),
    ),
)
