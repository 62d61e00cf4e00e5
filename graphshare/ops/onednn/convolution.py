"""Convolutions that oneDNN fuses with the layers after them, in floats or in 8-bit integers.

The flags and the subgraph state which operators are fused. In floats the subgraph is run. In
integers the operator quantizes its weights, per filter if its own range is calibrated, with
BatchNorm folded in first. It rounds where oneDNN rounds: weights and bias to integers, the sum of
products to float32 before scaling, the result to integers, half to even.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.activation.kernel import activation, leaky_relu
from graphshare.ops.convolution.correlation import convolution
from graphshare.ops.convolution.kernel import convolution_cost
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Bodies,
    BodyTypeRule,
    Context,
    Cost,
    Forward,
    Kernel,
    KernelError,
    ShapeRule,
    Shapes,
    Types,
)
from graphshare.ops.limits import Limits
from graphshare.ops.onednn.products import (
    Filters,
    Inner,
    find_attributes,
    per_unit,
    quantize_filters,
    sum_by_channel,
    sum_products,
)
from graphshare.ops.quantization.kernel import (
    ENDS,
    find_magnitude,
    product_range,
    range_end,
    round_to,
    with_ranges,
)
from graphshare.ops.unification import infer_nothing, require_dtypes

_LARGEST = float(np.finfo(np.float32).max)

_ACTIVATIONS = ("Activation", "LeakyReLU", "clip")
_ACT_TYPES = {
    "Activation": ("relu", "sigmoid", "softrelu", "tanh"),
    "LeakyReLU": ("leaky", "elu", "gelu"),
}
"""oneDNN's activations; MXNet ends with "unknown activation type" for others."""


def is_calibrated(attrs: Attrs) -> bool:
    """Whether the result's range is known."""
    return attrs["min_calib_range"] is not None and attrs["max_calib_range"] is not None


def _is_positive(operator: str, attrs: Attrs) -> bool:
    """Whether oneDNN assumes that the activation's results are never negative."""
    if operator == "LeakyReLU":
        return False
    return operator == "clip" or attrs["act_type"] in ("relu", "sigmoid", "softrelu")


def split_activations(
    attrs: Attrs, inner: Inner
) -> tuple[list[tuple[str, Attrs]], list[tuple[str, Attrs]]]:
    """Return the activations before and after the sum."""
    activations = [item for item in inner if item[0] in _ACTIVATIONS]
    first = activations[:1] if attrs["with_act"] else []
    second = activations[len(first) :] if attrs["with_postsum_act"] else []
    return first, second


def list_applied_activations(
    attrs: Attrs, inner: Inner
) -> tuple[list[tuple[str, Attrs]], list[tuple[str, Attrs]]]:
    """Return the activations applied before and after the sum; without a sum the dtype clips."""
    before, after = split_activations(attrs, inner)
    if before and before[0][0] == "clip" and not attrs["with_sum"]:
        return [], after
    return before, after


def _output_dtype(attrs: Attrs, inner: Inner) -> str:
    """The dtype is uint8 if the last activation is never negative."""
    if not is_calibrated(attrs):
        return "int32"
    before, after = split_activations(attrs, inner)
    # After a sum only the second decides the sign.
    last = before if before and not attrs["with_sum"] else after
    return "uint8" if last and _is_positive(*last[0]) else "int8"


def make_fused_kernel(
    operator: str,
    integers: Forward,
    count_arrays: Callable[[Attrs, Shapes, Bodies], int],
    types: BodyTypeRule,
    cost: Cost,
    refuses: Callable[[Attrs, Inner], str | None] = lambda attrs, inner: None,
    *,
    shapes: ShapeRule | None = None,
) -> Kernel:
    """Return a fused layer's kernel: its subgraph in floats, or ``integers`` if quantized.

    ``count_arrays(attrs, inputs, bodies)`` counts the inputs before the ends of ranges (one element
    each). ``types`` infers a quantized layer's dtypes. ``shapes`` follow from the layer's
    attributes; the subgraph must agree. ``refuses(attrs, inner)`` says why the subgraph cannot
    compute integers.
    """

    def forward(context: Context, attrs: Attrs, *inputs: Array) -> Any:
        if attrs["quantized"]:
            return integers(context, attrs, *inputs)
        if context.run_subgraph is None:
            raise KernelError("the node has no subgraph to run")
        return context.run_subgraph(0, inputs)[0]

    def body_shapes(
        attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies
    ) -> tuple[Shapes, Shapes]:
        arrays, results = inputs[: count_arrays(attrs, inputs, bodies)], outputs[:1]
        if shapes is not None:
            arrays, results = shapes(attrs, arrays, results)
        return with_ranges(bodies.shapes(0, arrays, results), inputs, outputs)

    def body_types(
        attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies
    ) -> tuple[Types, Types]:
        if not attrs["quantized"]:
            return bodies.types(0, inputs, outputs)
        wanted, results = types(attrs, inputs, outputs, bodies)
        require_dtypes(inputs, wanted)
        return wanted, results

    def refuses_node(attrs: Attrs, bodies: Bodies) -> str | None:
        return refuses(attrs, bodies.operators(0)) if attrs["quantized"] else None

    limits = Limits(elements=True)  # oneDNN has no layer without elements
    return Kernel(
        operator,
        forward,
        infer_nothing,
        infer_nothing,
        body_shapes,
        body_types,
        refuses_node,
        cost,
        limits=limits,
    )


class _Layer(NamedTuple):
    """The part of an integer convolution that depends only on parameters and ranges.

    ``scale`` multiplies each filter's sums, ``factor`` the array added between the activations
    ``before`` and ``after``. The result is clipped to ``limits`` (None if it may be NaN), written
    as integers of dtype ``written``, then read as ``dtype``, with range ``low`` to ``high``.
    """

    filters: Filters
    scale: Array | None
    factor: Any
    before: Inner
    after: Inner
    limits: tuple[Any, Any] | None
    written: str
    dtype: str
    low: Array
    high: Array


def convolve_integers(context: Context, attrs: Attrs, *inputs: Array) -> tuple[Array, ...]:
    """Compute convolution, BatchNorm, activation, sum and second activation as the flags state."""
    inner = context.inner
    conv = find_attributes(inner, "Convolution")
    x, *rest = inputs
    count = 1 + (not conv["no_bias"]) + 4 * bool(attrs["with_bn"])
    weights, ends = rest[:count], rest[count:]
    other = ends.pop(0) if attrs["with_sum"] else None
    dtypes = (x.dtype, None if other is None else other.dtype)
    key = (dtypes, *(end.item(0) for end in ends))
    # A bound graph prepares a layer once per data dtypes and ranges.
    layer = context.once(
        range(1, 1 + count), key, lambda: _prepare_layer(attrs, inner, weights, dtypes, ends)
    )
    out = _sum_products(context, conv, x, layer.filters)
    if layer.scale is not None:
        out *= layer.scale.reshape(-1, *(1,) * (out.ndim - 2))
    out = activate(layer.before, out)
    if other is not None:
        out += np.multiply(other, layer.factor, out=context.empty(other.shape, np.float32))
    out = activate(layer.after, out)
    if layer.limits is None:
        whole = np.ascontiguousarray(round_to(out, layer.written))
    else:
        # The limits are whole, so clipping may precede rounding.
        np.clip(out, *layer.limits, out=out)
        np.rint(out, out=out)
        whole = context.empty(out.shape, layer.written)
        whole[...] = out
    return whole.view(layer.dtype), layer.low.copy(), layer.high.copy()


def _prepare_layer(
    attrs: Attrs,
    inner: Inner,
    weights: Sequence[Array],
    dtypes: Sequence[Any],
    ends: Sequence[Array],
) -> _Layer:
    data, other = dtypes
    data_unit, dtype = per_unit(str(data), *ends[:2]), _output_dtype(attrs, inner)
    # A 32-bit result has one range, so filters share a scale.
    filters = quantize_filters(attrs, inner, weights, data_unit, data, by_filter=dtype != "int32")
    if dtype == "int32":
        low, high = product_range(
            find_magnitude(*ends[:2]), 127 if data == np.int8 else 255, float(filters.reach), 127
        )
        unit, scale = data_unit * filters.units[0], None
    else:
        low, high = np.float32(attrs["min_calib_range"]), np.float32(attrs["max_calib_range"])
        unit = per_unit(dtype, low, high)
        scale = unit / data_unit / filters.units
    factor = None if other is None else unit / per_unit(str(other), *ends[2:4])
    before, after = list_applied_activations(attrs, inner)
    # oneDNN writes a sum in the added array's dtype; the result's dtype reads these bytes.
    written = dtype if other is None or dtype == "int32" else str(other)
    limits = None
    has_only_relu = all(_is_relu(*item) for item in (*before, *after))
    if scale is not None and has_only_relu and _is_finite(filters, scale, factor):
        least, greatest = ENDS[written]
        # A final ReLU becomes the lower limit.
        if after or (before and other is None):
            least = max(0, least)
        limits = np.float32(least), np.float32(greatest)
        before, after = ([] if other is None else before), []
    return _Layer(
        filters,
        scale,
        factor,
        before,
        after,
        limits,
        written,
        dtype,
        range_end(low),
        range_end(high),
    )


def _is_relu(operator: str, attrs: Attrs) -> bool:
    return operator == "Activation" and attrs["act_type"] == "relu"


def _is_finite(filters: Filters, scale: Array, factor: Any) -> bool:
    """Return whether float32 holds all results."""
    # Sums fit into int32; an added number has 8 bits.
    largest = float(1 << 31)
    if filters.bias is not None:
        largest += float(np.abs(filters.bias).max(initial=0))
    return largest * float(np.abs(scale).max(initial=0)) + 255 * abs(float(factor or 0)) < _LARGEST


def _sum_products(context: Context, conv: Attrs, x: Array, filters: Filters) -> Array:
    """Return sums of products plus bias, rounded once to float32.

    oneDNN adds 128 to signed data, and subtracts its share of every sum in floats.
    """
    weights = filters.weights
    if weights.ndim == 2:
        wide = sum_by_channel(x, weights, filters.window, context.empty).swapaxes(0, 1)
    elif filters.parts:
        wide = sum_products(x, weights, filters.parts, filters.window, context.empty).swapaxes(0, 1)
    else:
        wide = convolution(context, {**conv, "no_bias": True}, x.astype(weights.dtype), weights)
    tail = (1,) * (wide.ndim - 2)
    if filters.shift is not None:
        # Both are exact in the dtype of the sums
        wide += filters.shift.reshape(-1, *tail).astype(wide.dtype)
    sums: Array = wide.astype(np.float32, copy=False)
    if filters.shift is not None:
        sums -= filters.shift.reshape(-1, *tail).astype(np.float32)
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


def _range_inputs(attrs: Attrs) -> int:
    return 4 if attrs["with_sum"] else 2


def convolution_types(
    attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies
) -> tuple[Types, Types]:
    """Infer float weights and statistics; data, added array and output are integers."""
    count = len(inputs) - _range_inputs(attrs)
    own = {0: inputs[0]}
    if attrs["with_sum"]:
        own[count - 1] = inputs[count - 1]
    # In the float subgraph, data and added array count as float32.
    variables = ["float32" if i in own else x for i, x in enumerate(inputs[:count])]
    inferred, _ = bodies.types(0, variables, [None])
    known = [own.get(i, x) for i, x in enumerate(inferred)]
    dtype = _output_dtype(attrs, bodies.operators(0))
    return [*known, *["float32"] * (len(inputs) - count)], [
        dtype,
        *["float32"] * (len(outputs) - 1),
    ]


def convolution_refusal(attrs: Attrs, inner: Inner) -> str | None:
    """Return why a convolution cannot run: operators in its subgraph without flags."""
    known = {"Convolution", *_ACTIVATIONS}
    if attrs["with_bn"]:
        known.add("BatchNorm")
    if attrs["with_sum"]:
        known.add("elemwise_add")
    return refusal(inner, "Convolution", known)


def refusal(inner: Inner, layer: str, known: Collection[str]) -> str | None:
    """Return why the subgraph cannot compute integers: no ``layer``, or operators not ``known``."""
    operators = [name for name, _ in inner]
    unknown = sorted(set(operators) - set(known))
    unknown += [
        f"{name} of act_type {attrs.get('act_type')}"
        for name, attrs in inner
        if name in _ACT_TYPES and attrs.get("act_type") not in _ACT_TYPES[name]
    ]
    if unknown:
        return f"{', '.join(unknown)} in its subgraph cannot be computed in integers"
    return None if layer in operators else f"its subgraph has no {layer}"


KERNELS = (
    make_fused_kernel(
        "_sg_mkldnn_conv",
        convolve_integers,
        lambda attrs, inputs, bodies: (
            len(inputs) - (_range_inputs(attrs) if attrs["quantized"] else 0)
        ),
        convolution_types,
        convolution_cost,
        convolution_refusal,
    ),
)
