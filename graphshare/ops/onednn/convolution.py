"""Layers as the oneDNN build joins them: a convolution or a dense layer with what follows it, in floats or in 8-bit integers.

The operator's flags and the operators of its subgraph say what is joined. In floats the subgraph is run as it stands. In
integers the operator quantizes its weights itself, by filter where its own range is calibrated; a BatchNorm is first multiplied
into them. All is rounded where oneDNN rounds: weights and bias to integers, the sum of products to float32 before it is scaled,
the result to integers, half to even. What is beyond a type's ends becomes the end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from graphshare.ops.activation.kernel import activation
from graphshare.ops.activation.leaky import leaky_relu
from graphshare.ops.convolution.kernel import convolution, convolution_cost
from graphshare.ops.kernel import Array, Attrs, Bodies, Context, Kernel, KernelError, Shapes, Types
from graphshare.ops.unification import unify

LEVELS = {"int8": np.float32(127.5), "uint8": np.float32(255.5)}


_ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(1 << 31), (1 << 31) - 1)}


_LARGEST = np.float32(2147483647)


_ACTIVATIONS = ("Activation", "LeakyReLU", "clip")


_ROOM = np.float32(1 << 30)  # the largest bias that oneDNN adds


_ONE = (1,)


Inner = Sequence[tuple[str, Attrs]]


def attributes_of(inner: Inner, operator: str) -> Attrs:
    """The attributes of the first ``operator`` among ``inner``.

    Raises:
        KernelError: there is none.
    """
    for name, attrs in inner:
        if name == operator:
            return attrs
    raise KernelError(f"its subgraph has no {operator}")


def per_unit(kind: str, low: Any, high: Any) -> Any:
    """How many steps of an integer type a number of 1 takes, in a range from ``low`` to ``high``."""
    reach = np.float32(max(abs(float(np.ravel(low)[0])), abs(float(np.ravel(high)[0]))))
    return LEVELS[kind] / reach if reach else _LARGEST


def is_calibrated(attrs: Attrs) -> bool:
    """Whether the range of the result is given."""
    return attrs["min_calib_range"] is not None and attrs["max_calib_range"] is not None


def _is_positive(operator: str, attrs: Attrs) -> bool:
    """Whether an activation gives no negative number, as far as the build looks."""
    if operator == "LeakyReLU":
        return False
    return operator == "clip" or attrs["act_type"] in ("relu", "sigmoid", "softrelu")


def _follow(attrs: Attrs, inner: Inner) -> tuple[list[tuple[str, Attrs]], list[tuple[str, Attrs]]]:
    """The activations before the sum and after it."""
    found = [item for item in inner if item[0] in _ACTIVATIONS]
    first = found[:1] if attrs["with_act"] else []
    return first, found[len(first) :] if attrs["with_postsum_act"] else []


def _kind(attrs: Attrs, inner: Inner) -> str:
    """The type of a convolution of integers: uint8 where its last activation lets nothing negative through."""
    if not is_calibrated(attrs):
        return "int32"
    before, after = _follow(attrs, inner)
    last = before if before and not attrs["with_sum"] else after
    return "uint8" if last and _is_positive(*last[0]) else "int8"


def fused_convolution(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """Convolution, then BatchNorm, activation, a sum and a second activation where the flags say so."""
    if attrs["quantized"]:
        return _convolution_of_integers(attrs, context.inner, inputs)
    if context.run_subgraph is None:
        raise KernelError("the node carries no subgraph to run")
    return context.run_subgraph(0, inputs)[0]


def _convolution_of_integers(attrs: Attrs, inner: Inner, inputs: Sequence[Array]) -> tuple[Array, ...]:
    conv = attributes_of(inner, "Convolution")
    x, weight, *rest = inputs
    bias = None if conv["no_bias"] else rest.pop(0)
    if attrs["with_bn"]:
        weight, bias = fold_batch_norm(weight, bias, attributes_of(inner, "BatchNorm"), [rest.pop(0) for _ in range(4)])
    other = rest.pop(0) if attrs["with_sum"] else None
    data_unit, kind = per_unit(str(x.dtype), *rest[:2]), _kind(attrs, inner)
    units = weight_units(weight, bias, data_unit, by_filter=kind != "int32")
    whole = quantize_weight(weight, _by_group(units, conv["num_group"]))
    wide = convolution(Context(), {**conv, "no_bias": True}, x.astype(np.float64), whole)
    rows = wide.reshape(*wide.shape[:2], -1)
    sums = add_bias(rows, x.dtype, None if bias is None else quantize_bias(bias, units, data_unit), whole)
    if kind == "int32":
        low, high = _products_range(x.dtype, rest[:2], weight)
        unit = data_unit * units[0]
    else:
        low, high = np.float32(attrs["min_calib_range"]), np.float32(attrs["max_calib_range"])
        unit = per_unit(kind, low, high)
        sums *= (unit / data_unit / units).reshape(-1, 1)
    out = sums.reshape(wide.shape)
    before, after = _follow(attrs, inner)
    if other is None and before and before[0][0] == "clip":
        before = []  # the largest integer cuts it off
    out = activate(before, out)
    if other is not None:
        out += (unit / per_unit(str(other.dtype), *rest[2:4])) * other.astype(np.float32)
    out = activate(after, out)
    # A sum is written over the memory of what is added, in its type; who reads it takes the bytes for the operator's own type.
    written = kind if other is None or kind == "int32" else str(other.dtype)
    return whole_numbers(out, written).view(kind), np.full(1, low, np.float32), np.full(1, high, np.float32)


def fold_batch_norm(weight: Array, bias: Array | None, attrs: Attrs, statistics: Sequence[Array]) -> tuple[Array, Array]:
    """Weight and bias with a BatchNorm multiplied into them."""
    gamma, beta, mean, variance = statistics
    scale = np.ones_like(gamma) if attrs["fix_gamma"] else gamma
    alpha = (scale / np.sqrt(variance.astype(np.float64) + attrs["eps"])).astype(np.float32)
    shift = beta - alpha * mean if bias is None else beta + alpha * (bias - mean)
    scaled: Array = weight * alpha.reshape(-1, *(1,) * (weight.ndim - 1))
    return scaled, shift


def weight_units(weight: Array, bias: Array | None, data_unit: Any, *, by_filter: bool) -> Array:
    """Steps per 1 of each filter's weights, fewer where its bias would be too large an integer; or one for all."""
    rows = weight.reshape(len(weight), -1)
    if not by_filter:
        return np.array([per_unit("int8", rows.min(), rows.max())], np.float32)
    reach = np.abs(rows).max(axis=1)
    units = np.divide(LEVELS["int8"], reach, out=np.full_like(reach, _LARGEST), where=reach > 0)
    if bias is not None:
        with np.errstate(divide="ignore"):
            units = np.where(bias != 0, np.minimum(units, _ROOM / np.abs(bias) / data_unit), units)
    found: Array = units.astype(np.float32)
    return found


def _by_group(units: Array, groups: int) -> Array:
    """What the build takes for the steps of each filter's weights: with groups, filters of group g get those of filter g."""
    if groups == 1 or len(units) == 1:
        return units
    result: Array = np.repeat(units[:groups], len(units) // groups)
    return result


def quantize_weight(weight: Array, units: Array) -> Array:
    """Weights as integers, in float64."""
    result: Array = np.clip(np.rint(weight * units.reshape(-1, *(1,) * (weight.ndim - 1))), -128, 127).astype(np.float64)
    return result


def quantize_bias(bias: Array, units: Array, data_unit: Any) -> Array:
    """A bias in steps of the products."""
    result: Array = np.rint(bias * (units * data_unit))
    return result


def add_bias(rows: Array, dtype: Any, bias: Array | None, whole: Array) -> Array:
    """Sums of products ``rows`` (N, filters, cells) with the bias, as float32.

    oneDNN adds 128 to signed data, and takes what that adds to every sum off again in floats.
    """
    shift = 128 * whole.reshape(len(whole), -1).sum(axis=1)[:, None] if dtype == np.int8 else np.zeros((1, 1))
    sums: Array = (rows + shift).astype(np.float32)
    sums -= shift.astype(np.float32)
    if bias is not None:
        sums += bias.astype(np.float32).reshape(-1, 1)
    return sums


def activate(operators: Sequence[tuple[str, Attrs]], x: Array) -> Array:
    """The activations of a list, one after the other."""
    for name, attrs in operators:
        if name == "Activation":
            x = activation(Context(), attrs, x)
        elif name == "clip":
            x = np.clip(x, 0, np.float32(attrs["a_max"]))
        else:
            found = leaky_relu(Context(), attrs, x)
            assert isinstance(found, np.ndarray)
            x = found
    return x


def whole_numbers(x: Array, kind: str) -> Array:
    """Rounded half to even, cut off at the ends of the type."""
    result: Array = np.clip(np.rint(x.astype(np.float64)), *_ENDS[kind]).astype(kind)
    return result


def _products_range(dtype: Any, ends: Sequence[Array], weight: Array) -> tuple[Any, Any]:
    data = np.float32(max(abs(float(x.ravel()[0])) for x in ends)) / np.float32(127 if dtype == np.int8 else 255)
    high = np.float32(np.abs(weight).max()) / np.float32(127) * data * np.float32(1 << 31)
    return -high, high


def convolution_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
    """What follows inside of the subgraph; ranges have one number."""
    count = len(inputs) - (_range_inputs(attrs) if attrs["quantized"] else 0)
    variables, heads = bodies.shapes(0, inputs[:count], outputs[:1])
    return [*variables, *(unify(_ONE, x) for x in inputs[count:])], [*heads, *(unify(_ONE, x) for x in outputs[1:])]


def _range_inputs(attrs: Attrs) -> int:
    return 4 if attrs["with_sum"] else 2


def convolution_types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
    """Weights and statistics are floats; data and what is added are integers in a layer of integers, and so is the output."""
    if not attrs["quantized"]:
        return bodies.types(0, inputs, outputs)
    count = len(inputs) - _range_inputs(attrs)
    own = {0: inputs[0], count - 1: inputs[count - 1]} if attrs["with_sum"] else {0: inputs[0]}
    variables = [None if i in own else x for i, x in enumerate(inputs[:count])]
    found, _ = bodies.types(0, [("float32" if i in own else x) for i, x in enumerate(variables)], [None])
    kind = _kind(attrs, bodies.operators(0))
    kept = [own.get(i, x) for i, x in enumerate(found)]
    return [*kept, *["float32"] * (len(inputs) - count)], [kind, *["float32"] * (len(outputs) - 1)]


def refuses_convolution(attrs: Attrs, bodies: Bodies) -> str | None:
    """Why a joined convolution cannot be run: operators in its subgraph that its flags do not speak of."""
    known = {"Convolution", *_ACTIVATIONS}
    known |= {"BatchNorm"} if attrs["with_bn"] else set()
    known |= {"elemwise_add"} if attrs["with_sum"] else set()
    return refusal(attrs, bodies, "Convolution", known)


def refusal(attrs: Attrs, bodies: Bodies, layer: str, known: Collection[str]) -> str | None:
    """Why integers cannot be computed through the subgraph: it lacks its ``layer``, or has what is not ``known``."""
    if not attrs["quantized"]:
        return None
    found = [name for name, _ in bodies.operators(0)]
    strange = sorted(set(found) - set(known))
    if strange:
        return f"integers are not computed through {', '.join(strange)} in its subgraph"
    return None if layer in found else f"its subgraph has no {layer}"


def no_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Without a subgraph nothing follows."""
    return inputs, outputs


def no_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Without a subgraph nothing follows."""
    return inputs, outputs


KERNELS = (
    Kernel(
        "_sg_mkldnn_conv",
        fused_convolution,
        no_shapes,
        no_types,
        body_shapes=convolution_shapes,
        body_types=convolution_types,
        refuses=refuses_convolution,
        cost=convolution_cost,
    ),
)
