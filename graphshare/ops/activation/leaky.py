"""LeakyReLU: the activations that let something of negative numbers through."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphshare.ops.buffers import reuse_buffer
from graphshare.ops.conversion import convert, to_floating
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shape, Shapes, Types
from graphshare.ops.limits import Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.unification import same_dtypes, same_shapes, unify
from graphshare.text.format import format_shape

_SELU_ALPHA = np.float32(1.6732632423543772)


_SELU_SCALE = np.float32(1.0507009873554805)


def leaky(context: Context, attrs: Attrs, x: Array) -> Array:
    """``slope * x`` below 0."""
    return _scale_where(x, attrs["slope"], _copy(context, x), x < 0)


def elu(context: Context, attrs: Attrs, x: Array) -> Array:
    """``slope * (exp(x) - 1)`` below 0."""
    below = x < 0
    out: Array = np.expm1(x, out=_copy(context, x), where=below)
    return _scale_where(out, attrs["slope"], out, below)


def selu(context: Context, attrs: Attrs, x: Array) -> Array:
    """:func:`elu` with the slope and the scale that keep mean 0 and variance 1."""
    below = x < 0
    out: Array = np.expm1(x, out=_copy(context, x), where=below)
    _scale_where(out, _SELU_ALPHA, out, below)
    out *= x.dtype.type(_SELU_SCALE)
    return out


def gelu(context: Context, attrs: Attrs, x: Array) -> Array:
    """``x`` times the normal distribution function of ``x``."""
    from graphshare.ops.special_functions import BLOCK, erf_of_block

    data = to_floating(x)
    given = np.ascontiguousarray(data).reshape(-1)
    over = reuse_buffer(context, x) if data is x and x.flags.c_contiguous else None
    out = context.empty(data.shape, data.dtype) if over is None else over
    result = out.reshape(-1)
    number = data.dtype.type
    for first in range(0, given.size, BLOCK):
        part = given[first : first + BLOCK]
        below = part * number(math.sqrt(0.5))
        erf_of_block(below, below)
        below += number(1)
        below *= part
        np.multiply(below, number(0.5), out=result[first : first + BLOCK])
    return convert(out, x.dtype)


def rrelu(context: Context, attrs: Attrs, x: Array) -> tuple[Array, Array]:
    """Below 0 ``x`` times a slope: the middle of the bounds, while training a random one for every element.

    The second output is the slopes while training, else zeros.
    """
    if not context.training:
        slope = (np.float32(attrs["lower_bound"]) + np.float32(attrs["upper_bound"])) / np.float32(2)
        mask = np.zeros_like(x)
        return leaky(context, {"slope": slope}, x), mask
    if context.rng is None:
        raise KernelError("random slopes need a generator of random numbers")
    require(attrs["lower_bound"] <= attrs["upper_bound"], "lower_bound is above upper_bound")
    slopes = context.rng.uniform(attrs["lower_bound"], attrs["upper_bound"], x.shape).astype(x.dtype)
    return np.where(x > 0, x, x * slopes), slopes


def prelu(context: Context, attrs: Attrs, x: Array, gamma: Array) -> Array:
    """``gamma * x`` below 0, a slope for every channel (axis 1) or one for all."""
    slopes = gamma.reshape((-1,) + (1,) * (x.ndim - 2)) if gamma.ndim == 1 and x.ndim > 1 else gamma
    require(slopes.ndim <= x.ndim, f"gamma has {slopes.ndim} axes, and the data {x.ndim}")
    with refuse_invalid_call():
        np.broadcast_shapes(slopes.shape, x.shape)
    result: Array = np.multiply(x, slopes, out=_copy(context, x), where=x < 0)
    return result


def _scale_where(x: Array, slope: float | np.float32, out: Array, below: Array) -> Array:
    result: Array = np.multiply(x, x.dtype.type(slope), out=out, where=below)
    return result


def _copy(context: Context, x: Array) -> Array:
    """``x`` in a buffer that may be changed."""
    out = reuse_buffer(context, x)
    return x.copy() if out is None else out


_BY_TYPE: dict[str, Callable[..., Array | tuple[Array, ...]]] = {
    "elu": elu,
    "gelu": gelu,
    "leaky": leaky,
    "prelu": prelu,
    "rrelu": rrelu,
    "selu": selu,
}


def leaky_relu(context: Context, attrs: Attrs, *inputs: Array) -> Array | tuple[Array, ...]:
    """The function that ``act_type`` names."""
    with np.errstate(all="ignore"):
        return _BY_TYPE[attrs["act_type"]](context, attrs, *inputs)


def _shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    (shape,), results = same_shapes(attrs, inputs[:1], outputs)
    if len(inputs) == 1:
        return [shape], results
    return [shape, _gamma_shape(shape, inputs[1])], results


def _gamma_shape(shape: Shape, gamma: Shape) -> Shape:
    """One slope for each channel unless something else is known that can be stretched over the data."""
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
        raise KernelError(f"gamma {format_shape(gamma)} has neither 1 slope nor one for each of {channels} channels") from None


def _types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    inputs, outputs = same_dtypes(attrs, inputs, outputs)
    if inputs[0] is not None and not inputs[0].startswith("float"):
        raise KernelError(f"{inputs[0]} where floating point is wanted")
    return inputs, outputs


KERNELS = with_limits(Limits(rank=1), Kernel("LeakyReLU", leaky_relu, _shapes, _types))
