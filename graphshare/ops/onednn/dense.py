"""Dense layers as the oneDNN build joins them with what follows: in floats, and in 8-bit integers.

Integers come with weights and bias that are integers of one range each, or, with ``channel_wise_quantize``, as floats that the
operator quantizes by unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Bodies, Context, Kernel, KernelError, Shapes, Types
from graphshare.ops.matmul.kernel import fully_connected_cost
from graphshare.ops.onednn.convolution import (
    Inner,
    activate,
    attributes_of,
    is_calibrated,
    no_shapes,
    no_types,
    per_unit,
    quantize_bias,
    quantize_weight,
    refusal,
    weight_units,
    whole_numbers,
)
from graphshare.ops.unification import unify

_ROOM = np.float32((1 << 30) - 1)  # half of the largest integer, cut off


_POINTWISE = {"square": np.square, "sqrt": np.sqrt, "exp": np.exp, "abs": np.abs}


_ACTIVATIONS = ("Activation", "LeakyReLU", "clip", *_POINTWISE)


_ONE = (1,)


def fused_dense(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """A dense layer, then a function of each number where the flags say so."""
    if attrs["quantized"]:
        return _dense_of_integers(attrs, context.inner, inputs)
    if context.run_subgraph is None:
        raise KernelError("the node carries no subgraph to run")
    return context.run_subgraph(0, inputs)[0]


def _by_unit(attrs: Attrs) -> bool:
    return attrs["channel_wise_quantize"] is not None


def _kind(attrs: Attrs, inner: Inner) -> str:
    """The type of the result of integers: uint8 where the function lets nothing negative through."""
    if attrs["enable_float_output"]:
        return "float32"
    if not is_calibrated(attrs):
        return "int32"
    last = [(name, of) for name, of in inner if name in _ACTIVATIONS] if attrs["with_eltwise"] else []
    positive = last and (
        last[0][0] in ("clip", *_POINTWISE) or last[0][1].get("act_type") in ("relu", "sigmoid", "softrelu", "leaky")
    )
    return "uint8" if positive else "int8"


def _dense_of_integers(attrs: Attrs, inner: Inner, inputs: Sequence[Array]) -> Array | tuple[Array, ...]:
    dense = attributes_of(inner, "FullyConnected")
    x, weight, *rest = inputs
    bias = None if dense["no_bias"] else rest.pop(0)
    data_unit, kind = per_unit(str(x.dtype), *rest[:2]), _kind(attrs, inner)
    if _by_unit(attrs):
        units = weight_units(weight, bias, data_unit, by_filter=True)
        whole = quantize_weight(weight, units)
        term = None if bias is None else quantize_bias(bias, units, data_unit)
    else:
        whole, units, term = _as_given(weight, bias, data_unit, rest[2:])
    rows = x.reshape(len(x), -1) if dense["flatten"] else x
    sums = np.matmul(rows.astype(np.float64), whole.T).astype(np.float32)
    if term is not None:
        sums += term.astype(np.float32)
    follow = [item for item in inner if item[0] in _ACTIVATIONS] if attrs["with_eltwise"] else []
    if kind == "int32":
        low, high = _products_range(x.dtype, rest)
        return whole_numbers(_through(follow, sums), kind), np.full(1, low, np.float32), np.full(1, high, np.float32)
    if kind == "float32" and not is_calibrated(attrs):
        return _through(follow, sums * (np.float32(1) / data_unit / units))
    low, high = np.float32(attrs["min_calib_range"]), np.float32(attrs["max_calib_range"])
    unit = per_unit(kind if kind != "float32" else "uint8", low, high)
    scale = np.float32(1) if follow else unit
    out: Array = _through(follow, sums * (scale / data_unit / units))
    if follow:
        out *= unit
    if kind == "float32":
        return out
    return whole_numbers(out, kind), np.full(1, low, np.float32), np.full(1, high, np.float32)


def _as_given(weight: Array, bias: Array | None, data_unit: Any, ends: Sequence[Array]) -> tuple[Array, Array, Array | None]:
    """Weights and bias that are integers, the bias brought to the scale of the products.

    Where that is too large an integer, the weights are made smaller.
    """
    unit, whole = per_unit("int8", *ends[:2]), weight.astype(np.float64)
    if bias is None:
        return whole, np.array([unit], np.float32), None
    bias_unit = per_unit("int8", *ends[2:4])
    factor = data_unit * unit / bias_unit
    reach = np.float32(max(abs(float(end.ravel()[0])) for end in ends[2:4]))
    with np.errstate(divide="ignore"):
        largest = _ROOM / reach / bias_unit
    if factor > largest:
        factor = largest
        smaller = factor * bias_unit / data_unit / unit
        whole = _half_away(whole * np.float64(smaller))
        unit = unit * smaller
    return whole, np.array([unit], np.float32), _half_away(bias * factor)


def _half_away(x: Array) -> Array:
    result: Array = np.copysign(np.floor(np.abs(x) + 0.5), x)
    return result


def _products_range(dtype: Any, ends: Sequence[Array]) -> tuple[Any, Any]:
    # The build takes the data's range for one of int8, and that of the weights for one of the data's type.
    data, weight = (np.float32(max(abs(float(x.ravel()[0])) for x in pair)) for pair in (ends[:2], ends[2:4]))
    levels = np.float32(127 if dtype == np.int8 else 255)
    high = data / np.float32(127) * (weight / levels) * np.float32(1 << 31)
    return -high, high


def _through(operators: Inner, x: Array) -> Array:
    for name, attrs in operators:
        x = _POINTWISE[name](x) if name in _POINTWISE else activate([(name, attrs)], x)
    return x


def _dense_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
    """What follows inside of the subgraph; ranges have one number."""
    count = _layer_inputs(bodies)
    variables, heads = bodies.shapes(0, inputs[:count], outputs[:1])
    return [*variables, *(unify(_ONE, x) for x in inputs[count:])], [*heads, *(unify(_ONE, x) for x in outputs[1:])]


def _layer_inputs(bodies: Bodies) -> int:
    return 2 if attributes_of(bodies.operators(0), "FullyConnected")["no_bias"] else 3


def _dense_types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
    """In a layer of integers weights and bias are int8, or float32 where the operator quantizes them."""
    if not attrs["quantized"]:
        return bodies.types(0, inputs, outputs)
    layer = _layer_inputs(bodies) - 1
    weights = ["float32" if _by_unit(attrs) else "int8"] * layer
    kinds = [inputs[0], *weights, *["float32"] * (len(inputs) - layer - 1)]
    return kinds, [_kind(attrs, bodies.operators(0)), *["float32"] * (len(outputs) - 1)]


def _refuses(attrs: Attrs, bodies: Bodies) -> str | None:
    return refusal(attrs, bodies, "FullyConnected", ("FullyConnected", *_ACTIVATIONS))


KERNELS = (
    Kernel(
        "_sg_mkldnn_fully_connected",
        fused_dense,
        no_shapes,
        no_types,
        body_shapes=_dense_shapes,
        body_types=_dense_types,
        refuses=_refuses,
        cost=fully_connected_cost,
    ),
)
