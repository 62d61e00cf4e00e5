"""Convolutions as oneDNN fuses them with the layers that follow, in floats or in 8-bit integers.

The operator's flags and the operators of its subgraph state what is fused. In floats the subgraph is run. In integers the
operator quantizes its weights itself, by filter where its own range is calibrated; a BatchNorm is folded into them first.
Rounding happens where oneDNN rounds: weights and bias to integers, the sum of products to float32 before it is scaled, the
result to integers, half to even. Values beyond the limits of a dtype become the limit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from graphshare.ops.activation.kernel import activation
from graphshare.ops.activation.leaky import leaky_relu
from graphshare.ops.convolution.forward import convolution
from graphshare.ops.convolution.kernel import convolution_cost
from graphshare.ops.kernel import Array, Attrs, Bodies, Context, Kernel, KernelError, Shapes, Types
from graphshare.ops.onednn.filters import Filters, Inner, attributes_of, per_unit, quantize_filters
from graphshare.ops.quantization.ranges import range_end, round_to, with_ranges

_ACTIVATIONS = ("Activation", "LeakyReLU", "clip")


def is_calibrated(attrs: Attrs) -> bool:
    """Return whether the range of the result is known."""
    return attrs["min_calib_range"] is not None and attrs["max_calib_range"] is not None


def _is_positive(operator: str, attrs: Attrs) -> bool:
    """Return whether oneDNN takes the results of an activation to be never negative."""
    if operator == "LeakyReLU":
        return False
    return operator == "clip" or attrs["act_type"] in ("relu", "sigmoid", "softrelu")


def split_activations(attrs: Attrs, inner: Inner) -> tuple[list[tuple[str, Attrs]], list[tuple[str, Attrs]]]:
    """Return the activations before the sum and after it."""
    activations = [item for item in inner if item[0] in _ACTIVATIONS]
    first = activations[:1] if attrs["with_act"] else []
    return first, activations[len(first) :] if attrs["with_postsum_act"] else []


def _output_dtype(attrs: Attrs, inner: Inner) -> str:
    """Return the dtype of an integer convolution: uint8 where its last activation is never negative."""
    if not is_calibrated(attrs):
        return "int32"
    before, after = split_activations(attrs, inner)
    last = before if before and not attrs["with_sum"] else after
    return "uint8" if last and _is_positive(*last[0]) else "int8"


def fused_convolution(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """Compute the convolution, then BatchNorm, activation, sum and second activation as the flags state."""
    if attrs["quantized"]:
        return _convolution_of_integers(context, attrs, inputs)
    return run_body(context, inputs)


def run_body(context: Context, inputs: Sequence[Array]) -> Array:
    """Run the subgraph of a fused layer in floats.

    Raises:
        KernelError: the node has no subgraph.
    """
    if context.run_subgraph is None:
        raise KernelError("the node has no subgraph to run")
    return context.run_subgraph(0, inputs)[0]


def _convolution_of_integers(context: Context, attrs: Attrs, inputs: Sequence[Array]) -> tuple[Array, ...]:
    inner = context.inner
    conv = attributes_of(inner, "Convolution")
    x, *rest = inputs
    count = 1 + (not conv["no_bias"]) + 4 * bool(attrs["with_bn"])
    weights, rest = rest[:count], rest[count:]
    other = rest.pop(0) if attrs["with_sum"] else None
    data_unit, dtype = per_unit(str(x.dtype), *rest[:2]), _output_dtype(attrs, inner)
    filters = context.once(
        range(1, 1 + count),
        (float(data_unit), x.dtype),
        lambda: quantize_filters(attrs, inner, weights, data_unit, x.dtype, by_filter=dtype != "int32"),
    )
    sums = _sum_products(context, conv, x, filters)
    if dtype == "int32":
        low, high = _products_range(x.dtype, rest[:2], filters.reach)
        unit = data_unit * filters.units[0]
    else:
        low, high = np.float32(attrs["min_calib_range"]), np.float32(attrs["max_calib_range"])
        unit = per_unit(dtype, low, high)
        sums *= (unit / data_unit / filters.units).reshape(-1, *(1,) * (sums.ndim - 2))
    out = sums
    before, after = split_activations(attrs, inner)
    if other is None and before and before[0][0] == "clip":
        before = []  # the limit of the dtype clips it
    out = activate(before, out)
    if other is not None:
        out += (unit / per_unit(str(other.dtype), *rest[2:4])) * other.astype(np.float32)
    out = activate(after, out)
    # oneDNN writes a sum over the added array, in its dtype; the bytes are then read as the operator's own dtype.
    written = dtype if other is None or dtype == "int32" else str(other.dtype)
    return round_to(out, written).view(dtype), range_end(low), range_end(high)


def _sum_products(context: Context, conv: Attrs, x: Array, filters: Filters) -> Array:
    """Return the sums of products plus the bias, as float32, rounded once.

    oneDNN adds 128 to signed data, and subtracts its share of every sum in floats.
    """
    wide: Any = None
    for span, weight in filters.parts:
        cells = x if span == slice(None) else x[:, span]
        part = convolution(context, {**conv, "no_bias": True}, cells.astype(weight.dtype), weight)
        wide = part if wide is None else wide + part.astype(np.float64)
    tail = (1,) * (wide.ndim - 2)
    shift = filters.shift.reshape(-1, *tail)
    if shift.any():
        sums: Array = (wide + shift).astype(np.float32)
        sums -= shift.astype(np.float32)
    else:
        sums = wide.astype(np.float32, copy=False)
    if filters.bias is not None:
        sums += filters.bias.reshape(-1, *tail)
    return sums


def activate(operators: Sequence[tuple[str, Attrs]], x: Array) -> Array:
    """Apply the activations in order."""
    for name, attrs in operators:
        if name == "Activation":
            x = activation(Context(), attrs, x)
        elif name == "clip":
            x = np.clip(x, 0, np.float32(attrs["a_max"]))
        else:
            result = leaky_relu(Context(), attrs, x)
            assert isinstance(result, np.ndarray)
            x = result
    return x


def _products_range(dtype: Any, ends: Sequence[Array], reach: Any) -> tuple[Any, Any]:
    data = np.float32(max(abs(float(x.ravel()[0])) for x in ends)) / np.float32(127 if dtype == np.int8 else 255)
    high = reach / np.float32(127) * data * np.float32(1 << 31)
    return -high, high


def convolution_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
    """Infer the shapes inside the subgraph; ranges have one element."""
    count = len(inputs) - (_range_inputs(attrs) if attrs["quantized"] else 0)
    return with_ranges(bodies.shapes(0, inputs[:count], outputs[:1]), inputs, outputs)


def _range_inputs(attrs: Attrs) -> int:
    return 4 if attrs["with_sum"] else 2


def convolution_types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
    """Infer float weights and statistics; in integers the data, the added array and the output are integers."""
    if not attrs["quantized"]:
        return bodies.types(0, inputs, outputs)
    count = len(inputs) - _range_inputs(attrs)
    own = {0: inputs[0], count - 1: inputs[count - 1]} if attrs["with_sum"] else {0: inputs[0]}
    variables = [None if i in own else x for i, x in enumerate(inputs[:count])]
    inferred, _ = bodies.types(0, [("float32" if i in own else x) for i, x in enumerate(variables)], [None])
    known = [own.get(i, x) for i, x in enumerate(inferred)]
    dtype = _output_dtype(attrs, bodies.operators(0))
    return [*known, *["float32"] * (len(inputs) - count)], [dtype, *["float32"] * (len(outputs) - 1)]


def convolution_refusal(attrs: Attrs, bodies: Bodies) -> str | None:
    """Return why a fused convolution cannot be run: operators in its subgraph that its flags do not state."""
    known = {"Convolution", *_ACTIVATIONS}
    known |= {"BatchNorm"} if attrs["with_bn"] else set()
    known |= {"elemwise_add"} if attrs["with_sum"] else set()
    return refusal(attrs, bodies, "Convolution", known)


def refusal(attrs: Attrs, bodies: Bodies, layer: str, known: Collection[str]) -> str | None:
    """Return why the subgraph cannot compute integers: it lacks its ``layer``, or has operators that are not ``known``."""
    if not attrs["quantized"]:
        return None
    operators = [name for name, _ in bodies.operators(0)]
    unknown = sorted(set(operators) - set(known))
    if unknown:
        return f"{', '.join(unknown)} in its subgraph cannot be computed in integers"
    return None if layer in operators else f"its subgraph has no {layer}"


def infer_nothing(attrs: Attrs, inputs: Any, outputs: Any) -> tuple[Any, Any]:
    """Return shapes or dtypes as they are: without a subgraph nothing can be inferred."""
    return inputs, outputs


KERNELS = (
    Kernel(
        "_sg_mkldnn_conv",
        fused_convolution,
        infer_nothing,
        infer_nothing,
        body_shapes=convolution_shapes,
        body_types=convolution_types,
        refuses=convolution_refusal,
        cost=convolution_cost,
    ),
)
