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
from graphshare.ops.limits import require
from graphshare.ops.quantization.ranges import range_end, round_to, with_ranges

LEVELS = {"int8": np.float32(127.5), "uint8": np.float32(255.5)}


_LARGEST = np.float32(2147483647)


_ACTIVATIONS = ("Activation", "LeakyReLU", "clip")


_ROOM = np.float32(1 << 30)  # the largest bias that oneDNN adds


Inner = Sequence[tuple[str, Attrs]]


def attributes_of(inner: Inner, operator: str) -> Attrs:
    """Return the attributes of the first ``operator`` among ``inner``.

    Raises:
        KernelError: there is none.
    """
    for name, attrs in inner:
        if name == operator:
            return attrs
    raise KernelError(f"its subgraph has no {operator}")


def per_unit(dtype: str, low: Any, high: Any) -> Any:
    """Return how many integer steps represent 1.0, in a range from ``low`` to ``high``."""
    require(dtype in LEVELS, f"{dtype} is not supported, expected {' or '.join(LEVELS)}")
    reach = np.float32(max(abs(float(np.ravel(low)[0])), abs(float(np.ravel(high)[0]))))
    return LEVELS[dtype] / reach if reach else _LARGEST


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
        return _convolution_of_integers(attrs, context.inner, inputs)
    return run_body(context, inputs)


def run_body(context: Context, inputs: Sequence[Array]) -> Array:
    """Run the subgraph of a fused layer in floats.

    Raises:
        KernelError: the node has no subgraph.
    """
    if context.run_subgraph is None:
        raise KernelError("the node has no subgraph to run")
    return context.run_subgraph(0, inputs)[0]


def _convolution_of_integers(attrs: Attrs, inner: Inner, inputs: Sequence[Array]) -> tuple[Array, ...]:
    conv = attributes_of(inner, "Convolution")
    x, weight, *rest = inputs
    bias = None if conv["no_bias"] else rest.pop(0)
    if attrs["with_bn"]:
        weight, bias = fold_batch_norm(weight, bias, attributes_of(inner, "BatchNorm"), [rest.pop(0) for _ in range(4)])
    other = rest.pop(0) if attrs["with_sum"] else None
    data_unit, dtype = per_unit(str(x.dtype), *rest[:2]), _output_dtype(attrs, inner)
    units = weight_units(weight, bias, data_unit, by_filter=dtype != "int32")
    whole = quantize_weight(weight, _units_by_group(units, conv["num_group"]))
    wide = convolution(Context(), {**conv, "no_bias": True}, x.astype(np.float64), whole)
    rows = wide.reshape(*wide.shape[:2], -1)
    sums = add_bias(rows, x.dtype, None if bias is None else quantize_bias(bias, units, data_unit), whole)
    if dtype == "int32":
        low, high = _products_range(x.dtype, rest[:2], weight)
        unit = data_unit * units[0]
    else:
        low, high = np.float32(attrs["min_calib_range"]), np.float32(attrs["max_calib_range"])
        unit = per_unit(dtype, low, high)
        sums *= (unit / data_unit / units).reshape(-1, 1)
    out = sums.reshape(wide.shape)
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


def fold_batch_norm(weight: Array, bias: Array | None, attrs: Attrs, statistics: Sequence[Array]) -> tuple[Array, Array]:
    """Return the weight and bias of a convolution with a BatchNorm folded into them."""
    gamma, beta, mean, variance = statistics
    scale = np.ones_like(gamma) if attrs["fix_gamma"] else gamma
    alpha = (scale / np.sqrt(variance.astype(np.float64) + attrs["eps"])).astype(np.float32)
    shift = beta - alpha * mean if bias is None else beta + alpha * (bias - mean)
    scaled: Array = weight * alpha.reshape(-1, *(1,) * (weight.ndim - 1))
    return scaled, shift


def weight_units(weight: Array, bias: Array | None, data_unit: Any, *, by_filter: bool) -> Array:
    """Return the steps per 1.0 of each filter's weights, fewer where its bias would overflow; or one for all."""
    rows = weight.reshape(len(weight), -1)
    if not by_filter:
        return np.array([per_unit("int8", rows.min(), rows.max())], np.float32)
    reach = np.abs(rows).max(axis=1)
    units = np.divide(LEVELS["int8"], reach, out=np.full_like(reach, _LARGEST), where=reach > 0)
    if bias is not None:
        with np.errstate(divide="ignore"):
            units = np.where(bias != 0, np.minimum(units, _ROOM / np.abs(bias) / data_unit), units)
    return np.asarray(units.astype(np.float32))


def _units_by_group(units: Array, groups: int) -> Array:
    """Return the steps that oneDNN uses for each filter's weights: filters of group g get those of filter g."""
    if groups == 1 or len(units) == 1:
        return units
    return np.asarray(np.repeat(units[:groups], len(units) // groups))


def quantize_weight(weight: Array, units: Array) -> Array:
    """Return the weights as integers, in float64."""
    return np.asarray(np.clip(np.rint(weight * units.reshape(-1, *(1,) * (weight.ndim - 1))), -128, 127).astype(np.float64))


def quantize_bias(bias: Array, units: Array, data_unit: Any) -> Array:
    """Return the bias in steps of the products."""
    return np.asarray(np.rint(bias * (units * data_unit)))


def add_bias(rows: Array, dtype: Any, bias: Array | None, whole: Array) -> Array:
    """Return the sums of products ``rows`` (N, filters, cells) plus the bias, as float32.

    oneDNN adds 128 to signed data, and subtracts its share of every sum in floats.
    """
    shift = 128 * whole.reshape(len(whole), -1).sum(axis=1)[:, None] if dtype == np.int8 else np.zeros((1, 1))
    sums: Array = (rows + shift).astype(np.float32)
    sums -= shift.astype(np.float32)
    if bias is not None:
        sums += bias.astype(np.float32).reshape(-1, 1)
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


def _products_range(dtype: Any, ends: Sequence[Array], weight: Array) -> tuple[Any, Any]:
    data = np.float32(max(abs(float(x.ravel()[0])) for x in ends)) / np.float32(127 if dtype == np.int8 else 255)
    high = np.float32(np.abs(weight).max()) / np.float32(127) * data * np.float32(1 << 31)
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
