"""Elementwise activations, all modes of LeakyReLU, and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphshare.ops.activation.softmax import GRADIENTS as SOFTMAX_GRADIENTS
from graphshare.ops.activation.softmax import KERNELS as SOFTMAX_KERNELS
from graphshare.ops.arrays import Array, Attrs, KernelError, Shape, Shapes
from graphshare.ops.conversion import convert, to_floating
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, sum_to_shape
from graphshare.ops.kernel import (
    RELU,
    Context,
    Epilogue,
    Forward,
    Kernel,
    Operation,
    result_buffer,
    reuse_buffer,
)
from graphshare.ops.limits import Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.special_functions import BLOCK, erf, erf_of_block, softplus
from graphshare.ops.unification import same_dtypes, same_floating_dtypes, same_shapes, unify
from graphshare.ops.windows import to_compute_dtype
from graphshare.text.format import format_count, format_shape

_EXACT_ALPHA = 1.6732632423543772
_EXACT_SCALE = 1.0507009873554805
SELU_ALPHA = np.float32(_EXACT_ALPHA)  # the gradient computes with the exact ones
SELU_SCALE = np.float32(_EXACT_SCALE)


def leaky(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``slope * x`` below 0, otherwise ``x``."""
    if 0 < attrs["slope"] <= 1:  # the larger of both, a fifth of the time of a masked product
        scaled = np.multiply(x, x.dtype.type(attrs["slope"]), out=context.empty(x.shape, x.dtype))
        over = reuse_buffer(context, x)
        return np.asarray(np.maximum(x, scaled, out=scaled if over is None else over))
    return _scale_where(x, attrs["slope"], _copy(context, x), x < 0)


def elu(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``slope * (exp(x) - 1)`` below 0, otherwise ``x``."""
    below = x < 0
    # Made before: the result may overwrite x.
    out: Array = np.expm1(x, out=_copy(context, x), where=below)
    return _scale_where(out, attrs["slope"], out, below)


def selu(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return :func:`elu` with the constants that keep mean 0 and variance 1."""
    out = elu(context, {"slope": SELU_ALPHA}, x)
    out *= x.dtype.type(SELU_SCALE)
    return out


def gelu(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``x`` times its normal distribution function."""
    data = to_floating(x)
    values = np.ascontiguousarray(data).reshape(-1)
    # reshape(-1) copies any other array, and the result would be lost.
    over = reuse_buffer(context, x) if data is x and x.flags.c_contiguous else None
    out = context.empty(data.shape, data.dtype) if over is None else over
    result = out.reshape(-1)
    number = data.dtype.type
    for first in range(0, values.size, BLOCK):
        part = values[first : first + BLOCK]
        below = part * number(math.sqrt(0.5))
        erf_of_block(below, below)
        below += number(1)
        below *= part
        np.multiply(below, number(0.5), out=result[first : first + BLOCK])
    return convert(out, x.dtype)


def rrelu(context: Context, attrs: Attrs, x: Array) -> tuple[Array, Array]:
    """Return ``x``, scaled below 0 by random slopes in training, else by the middle of the bounds.

    The second output is the slopes, or zeros.
    """
    if not context.training:
        slope = (np.float32(attrs["lower_bound"]) + np.float32(attrs["upper_bound"])) / np.float32(
            2
        )
        mask = np.zeros_like(x)
        return leaky(context, {"slope": slope}, x), mask
    if context.rng is None:
        raise KernelError("random slopes need a generator of random numbers")
    require(attrs["lower_bound"] <= attrs["upper_bound"], "lower_bound is above upper_bound")
    slopes = context.rng.uniform(attrs["lower_bound"], attrs["upper_bound"], x.shape).astype(
        x.dtype
    )
    return np.where(x > 0, x, x * slopes), slopes


def prelu(context: Context, attrs: Attrs, x: Array, gamma: Array) -> Array:
    """Return ``gamma * x`` below 0, otherwise ``x``; one slope per channel (axis 1) or one for all."""
    slopes = gamma.reshape((-1,) + (1,) * (x.ndim - 2)) if gamma.ndim == 1 and x.ndim > 1 else gamma
    require(
        slopes.ndim <= x.ndim,
        f"gamma has {format_count(slopes.ndim, 'axis')}, more than the {x.ndim} of the data",
    )
    with refuse_invalid_call():
        np.broadcast_shapes(slopes.shape, x.shape)
    result: Array = np.multiply(x, slopes, out=_copy(context, x), where=x < 0)
    return result


def _scale_where(x: Array, slope: float | np.float32, out: Array, below: Array) -> Array:
    result: Array = np.multiply(x, x.dtype.type(slope), out=out, where=below)
    return result


def _copy(context: Context, x: Array) -> Array:
    out = reuse_buffer(context, x)
    return x.copy() if out is None else out


_LEAKY_BY_TYPE: dict[str, Callable[..., Array | tuple[Array, ...]]] = {
    "elu": elu,
    "gelu": gelu,
    "leaky": leaky,
    "prelu": prelu,
    "rrelu": rrelu,
    "selu": selu,
}


def leaky_relu(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """Compute the function ``act_type``."""
    with np.errstate(all="ignore"):
        return _LEAKY_BY_TYPE[attrs["act_type"]](context, attrs, *inputs)


def _infer_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    (shape,), results = same_shapes(attrs, inputs[:1], outputs)
    if len(inputs) == 1:
        return [shape], results
    return [shape, _gamma_shape(shape, inputs[1])], results


def _gamma_shape(shape: Shape, gamma: Shape) -> Shape:
    """Return one slope per channel, unless ``gamma`` has another shape that can be broadcast."""
    if shape is None or (gamma is not None and len(gamma) != 1):
        return gamma
    channels = shape[0 if len(shape) == 1 else 1]
    if gamma is None:
        return (channels,)
    if gamma == (1,):
        return gamma
    try:
        return unify(gamma, (channels,))
    except KernelError:
        raise KernelError(
            f"gamma has shape {format_shape(gamma)}, expected (1) or ({channels}), one slope per channel"
        ) from None


def elu_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``slope exp(x) dy`` at 0 and below, otherwise ``dy``."""
    x = entry.inputs[0]
    # exp() of a large x would overflow, although its branch is not taken.
    return np.where(x > 0, dy, dy * np.exp(np.minimum(x, 0)) * dy.dtype.type(entry.attrs["slope"]))


def selu_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``scale (alpha + y) dy`` at 0 and below, as in MXNet (not ``scale * alpha + y``)."""
    x, y = entry.inputs[0], to_compute_dtype(entry.outputs[0])
    slope = np.where(x > 0, _EXACT_SCALE, _EXACT_SCALE * (_EXACT_ALPHA + y))
    return np.asarray(dy * slope.astype(dy.dtype))


def gelu_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` times (normal distribution function plus ``x`` times its density)."""
    x = to_floating(entry.inputs[0])
    slope = (1 + erf(x * x.dtype.type(math.sqrt(0.5)))) * x.dtype.type(0.5)
    slope += x * np.exp(-x * x / 2) * x.dtype.type(1 / math.sqrt(2 * math.pi))
    return np.asarray((dy * slope).astype(dy.dtype, copy=False))


def rrelu_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return ``dy``, at 0 and below times the slope of the forward pass."""
    x, slopes = entry.inputs[0], entry.outputs[1]
    if not entry.training:
        slopes = dy.dtype.type((entry.attrs["lower_bound"] + entry.attrs["upper_bound"]) / 2)
    return np.where(x > 0, dy, dy * slopes)


def prelu_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of data and slopes."""
    x, gamma = entry.inputs
    slopes = gamma
    if gamma.ndim == 1 and x.ndim > 1:
        slopes = gamma.reshape((gamma.size,) + (1,) * (x.ndim - 2))
    below = x <= 0
    dgamma = sum_to_shape(dy * x * below, slopes.shape if slopes.size != 1 else (1,) * x.ndim)
    return [np.where(below, dy * slopes, dy), dgamma.reshape(gamma.shape)]


_LEAKY_GRADIENT_BY_TYPE: dict[str, Callable[..., Array | Gradients]] = {
    "elu": elu_gradient,
    "gelu": gelu_gradient,
    "leaky": lambda entry, dy: np.where(
        entry.inputs[0] <= 0, dy * dy.dtype.type(entry.attrs["slope"]), dy
    ),
    "prelu": prelu_gradient,
    "rrelu": rrelu_gradient,
    "selu": selu_gradient,
}


def relu(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return max(x, 0)."""
    result: Array = np.maximum(x, x.dtype.type(0), out=result_buffer(context, x))
    return result


def sigmoid(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) without overflow, float16 in float32."""
    if x.dtype == np.float16:
        return sigmoid(Context(reusable=(True,)), attrs, x.astype(np.float32)).astype(x.dtype)
    # np.negative is wrong in place on some strides
    out = np.multiply(x, x.dtype.type(-1), out=result_buffer(context, x))
    with np.errstate(over="ignore"):
        np.exp(out, out=out)
    out += 1
    result: Array = np.reciprocal(out, out=out)
    return result


def tanh(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the hyperbolic tangent; as in MXNet, integers from -19 to 19 give 0."""
    if x.dtype.kind in "iu":
        return np.asarray(np.sign(x) * (np.abs(x.astype(np.float64)) >= 20), x.dtype)
    result: Array = np.tanh(x, out=result_buffer(context, x))
    return result


def softrelu(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return log(1 + exp(x))."""
    with np.errstate(all="ignore"):
        return softplus(x)


def softsign(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return x / (1 + abs(x))."""
    with np.errstate(invalid="ignore"):
        result: Array = x / (1 + np.abs(x))
    return result


_BY_TYPE: dict[str, Callable[[Context, Attrs, Array], Array]] = {
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "softrelu": softrelu,
    "softsign": softsign,
}


def activation(context: Context, attrs: Attrs, x: Array) -> Any:
    """Compute the function ``act_type``; integer results are truncated."""
    return accept_integers(_BY_TYPE[attrs["act_type"]])(context, attrs, x)


def accept_integers(forward: Callable[[Context, Attrs, Array], Array]) -> Forward:
    """Extend a kernel to integers: compute in float64 and truncate."""

    def compute(context: Context, attrs: Attrs, x: Array) -> Array:
        # relu and tanh compute integers themselves.
        if x.dtype.kind == "f" or forward is relu:
            return forward(context, attrs, x)
        if forward is tanh and x.dtype.kind in "iu":
            return forward(context, attrs, x)
        return convert(forward(Context(), attrs, x.astype(np.float64)), x.dtype)

    return compute


def _relu_directly(dtype: str) -> Callable[..., Array]:
    zero = np.zeros((), dtype)

    def compute(x: Array) -> Array:
        result: Array = np.maximum(x, zero, order="C")
        return result

    return compute


def _sigmoid_directly(dtype: str) -> Callable[..., Array]:
    # The steps of sigmoid(), for the same bits.
    minus, one = np.full((), -1, dtype), np.ones((), dtype)

    def compute(x: Array) -> Array:
        out: Array = np.multiply(x, minus, order="C")
        np.exp(out, out=out)
        np.add(out, one, out=out)
        np.reciprocal(out, out=out)
        return out

    return compute


_DIRECT: dict[Any, Callable[[str], Callable[..., Array]]] = {
    relu: _relu_directly,
    sigmoid: _sigmoid_directly,
    tanh: lambda dtype: partial(np.tanh, order="C"),
}


def _find_direct(forward: Any, dtype: str) -> Callable[..., Array] | None:
    function = _DIRECT.get(forward)
    return function(dtype) if function is not None and dtype in ("float32", "float64") else None


def activation_kernel(operator: str, forward: Any, epilogue: Epilogue | None = None) -> Kernel:
    """Return an activation's kernel, which keeps shape and dtype."""

    def direct(attrs: Attrs, dtypes: Sequence[str]) -> Callable[..., Array] | None:
        return _find_direct(forward, dtypes[0])

    return Kernel(
        operator,
        accept_integers(forward),
        same_shapes,
        same_dtypes,
        epilogue=epilogue,
        direct=direct,
    )


def _direct_by_type(attrs: Attrs, dtypes: Sequence[str]) -> Callable[..., Array] | None:
    return _find_direct(_BY_TYPE[attrs["act_type"]], dtypes[0])


def _clip_by_type(attrs: Attrs) -> Operation | None:
    return RELU if attrs["act_type"] == "relu" else None


KERNELS = (
    *SOFTMAX_KERNELS,
    Kernel(
        "Activation",
        activation,
        same_shapes,
        same_dtypes,
        epilogue=_clip_by_type,
        direct=_direct_by_type,
    ),
    activation_kernel("relu", relu, lambda attrs: RELU),
    activation_kernel("sigmoid", sigmoid),
    activation_kernel("tanh", tanh),
    activation_kernel("softsign", softsign),
    *with_limits(
        Limits(rank=1), Kernel("LeakyReLU", leaky_relu, _infer_shapes, same_floating_dtypes)
    ),
)


def relu_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` where the output is positive, otherwise 0; NaN stays NaN."""
    y = entry.outputs[0]
    result: Array = np.multiply(dy, y > 0)
    # The sum detects a NaN without isnan()'s array.
    return np.where(np.isnan(y), y, result) if np.isnan(y.sum()) else result


def sigmoid_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy y (1 - y)``."""
    y = entry.outputs[0]
    result: Array = dy * (y * (1 - y))
    return result


def tanh_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy (1 - y^2)``."""
    y = entry.outputs[0]
    result: Array = dy * (1 - y * y)
    return result


def softrelu_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy (1 - exp(-y))``."""
    result: Array = dy * -np.expm1(-entry.outputs[0])
    return result


def softsign_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy / (1 + |x|)^2``."""
    # The square overflows in float16
    slope = 1 / np.square(1 + np.abs(to_compute_dtype(entry.inputs[0])))
    return np.asarray((dy * slope).astype(dy.dtype, copy=False))


_GRADIENT_BY_TYPE: dict[str, Callable[[TapeEntry, Array], Array]] = {
    "relu": relu_gradient,
    "sigmoid": sigmoid_gradient,
    "tanh": tanh_gradient,
    "softrelu": softrelu_gradient,
    "softsign": softsign_gradient,
}


GRADIENTS = (
    *SOFTMAX_GRADIENTS,
    Gradient("Activation", lambda entry, dy: _GRADIENT_BY_TYPE[entry.attrs["act_type"]](entry, dy)),
    *(
        Gradient(name, _GRADIENT_BY_TYPE[name], reads_inputs=False)
        for name in ("relu", "sigmoid", "tanh")
    ),
    Gradient("softsign", softsign_gradient, reads_outputs=False),
    Gradient(
        "LeakyReLU",
        lambda entry, *dys: _LEAKY_GRADIENT_BY_TYPE[entry.attrs["act_type"]](entry, *dys),
    ),
)
