"""Self-attention as the oneDNN build joins it: in floats its subgraph, in 8-bit integers one product with its scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphshare.ops.attention.kernel import self_scores_cost, split_interleaved, values_cost
from graphshare.ops.kernel import Array, Attrs, Bodies, Context, Kernel, KernelError, Shapes, Types
from graphshare.ops.onednn.convolution import is_calibrated, no_shapes, no_types, per_unit, whole_numbers
from graphshare.ops.unification import unify

_ONE = (1,)


def _in_floats(context: Context, inputs: Sequence[Array]) -> Array:
    if context.run_subgraph is None:
        raise KernelError("the node carries no subgraph to run")
    return context.run_subgraph(0, inputs)[0]


def scores(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """Queries against keys: (batch * heads, length, length)."""
    if not attrs["quantized"]:
        return _in_floats(context, inputs)
    projected, low, high = inputs
    queries, keys, _ = split_interleaved(attrs, projected.astype(np.float64), 3)
    unit = per_unit("int8", low, high)
    products = np.matmul(queries, keys.swapaxes(1, 2)).astype(np.float32)
    factor = np.float32(1) / np.sqrt(np.float32(queries.shape[-1]))
    nothing = (projected, np.zeros(1), np.zeros(1))  # MXNet forgets to look: 32-bit scores have the range 0
    return _requantize(attrs, products, unit * unit, factor, nothing, nothing)


def apply_attention(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """Attention applied to the values: (length, batch, heads * depth)."""
    if not attrs["quantized"]:
        return _in_floats(context, inputs)
    projected, attention, *ends = inputs
    values = split_interleaved(attrs, projected.astype(np.float64), 3)[2]
    products = np.matmul(attention.astype(np.float64), values).swapaxes(0, 1)
    joined = np.ascontiguousarray(products).reshape(len(products), -1, attrs["heads"] * values.shape[-1])
    unit = per_unit("int8", *ends[:2]) * per_unit(str(attention.dtype), *ends[2:4])
    ranges = ((projected, *ends[:2]), (attention, *ends[2:4]))
    return _requantize(attrs, joined.astype(np.float32), unit, np.float32(1), *ranges)


def _requantize(attrs: Attrs, products: Array, unit: Any, factor: Any, *ranged: Sequence[Array]) -> Array | tuple[Array, ...]:
    """Products of integers as floats, in the calibrated range, or as 32-bit integers."""
    if is_calibrated(attrs):
        low, high = np.float32(attrs["min_calib_range"]), np.float32(attrs["max_calib_range"])
        scaled = products * np.float32(per_unit("int8", low, high) / unit * factor)
        kind = "int8"
    elif attrs["enable_float_output"]:
        return np.asarray(products * np.float32(np.float32(1) / unit * factor))
    else:
        steps = [max(abs(float(end.ravel()[0])) for end in ends) / (127 if x.dtype == np.int8 else 255) for x, *ends in ranged]
        high = np.float32(np.float32(steps[0]) * np.float32(steps[1]) * np.float32(1 << 31))
        low, scaled, kind = -high, products * factor, "int32"
    if attrs["enable_float_output"]:
        return np.asarray(scaled)
    return whole_numbers(scaled, kind), np.full(1, low, np.float32), np.full(1, high, np.float32)


def _rules(arrays: int) -> tuple[Any, Any]:
    """Shapes and types of an operator of so many arrays, each with two ends of a range in integers."""

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
        found, heads = bodies.shapes(0, inputs[:arrays], outputs[:1])
        return [*found, *(unify(_ONE, x) for x in inputs[arrays:])], [*heads, *(unify(_ONE, x) for x in outputs[1:])]

    def types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
        if not attrs["quantized"]:
            return bodies.types(0, inputs, outputs)
        known = [*inputs[:arrays], *["float32"] * (2 * arrays)]
        if attrs["enable_float_output"]:
            return known, ["float32"]
        return known, ["int8" if is_calibrated(attrs) else "int32", "float32", "float32"]

    return shapes, types


KERNELS = tuple(
    Kernel(operator, forward, no_shapes, no_types, body_shapes=rules[0], body_types=rules[1], cost=cost)
    for operator, forward, rules, cost in (
        ("_sg_mkldnn_selfatt_qk", scores, _rules(1), self_scores_cost),
        ("_sg_mkldnn_selfatt_valatt", apply_attention, _rules(2), values_cost),
    )
)
