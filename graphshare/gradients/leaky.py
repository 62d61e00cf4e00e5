"""Gradients of the activations that let something of negative numbers through."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphshare.gradients.gradient import Gradient, Gradients, Record, summed_to
from graphshare.kernels.conversion import floating
from graphshare.kernels.kernel import Array

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def leaky(record: Record, dy: Array) -> Array:
    """``slope`` at 0 and below."""
    return np.where(record.inputs[0] <= 0, dy * dy.dtype.type(record.attrs["slope"]), dy)


def elu(record: Record, dy: Array) -> Array:
    """``slope * exp(x)`` at 0 and below."""
    x = record.inputs[0]
    return np.where(x > 0, dy, dy * np.exp(np.minimum(x, 0)) * dy.dtype.type(record.attrs["slope"]))


def selu(record: Record, dy: Array) -> Array:
    """``scale * (alpha + y)`` at 0 and below, which is MXNet's and not quite the derivative, ``scale * alpha + y``."""
    x, y = record.inputs[0], record.outputs[0]
    slope = np.where(x > 0, _SELU_SCALE, _SELU_SCALE * (_SELU_ALPHA + y))
    return np.asarray(dy * slope.astype(dy.dtype))


def gelu(record: Record, dy: Array) -> Array:
    """The normal distribution function, and ``x`` times its density."""
    from graphshare.kernels.special import erf

    x = floating(record.inputs[0])
    slope = (1 + erf(x * x.dtype.type(math.sqrt(0.5)))) * x.dtype.type(0.5)
    slope += x * np.exp(-x * x / 2) * x.dtype.type(1 / math.sqrt(2 * math.pi))
    return np.asarray((dy * slope).astype(dy.dtype, copy=False))


def rrelu(record: Record, dy: Array, *_: Array | None) -> Array:
    """The slope that was drawn, outside training the middle of the bounds."""
    x, slopes = record.inputs[0], record.outputs[1]
    if not record.training:
        slopes = dy.dtype.type((record.attrs["lower_bound"] + record.attrs["upper_bound"]) / 2)
    return np.where(x > 0, dy, dy * slopes)


def prelu(record: Record, dy: Array) -> Gradients:
    """Of data, and of the slopes."""
    x, gamma = record.inputs
    slopes = gamma.reshape((-1,) + (1,) * (x.ndim - 2)) if gamma.ndim == 1 and x.ndim > 1 else gamma
    below = x <= 0
    dgamma = summed_to(dy * x * below, slopes.shape if slopes.size > 1 else (1,) * x.ndim)
    return [np.where(below, dy * slopes, dy), dgamma.reshape(gamma.shape)]


_BY_TYPE: dict[str, Callable[..., Array | Gradients]] = {
    "elu": elu,
    "gelu": gelu,
    "leaky": leaky,
    "prelu": prelu,
    "rrelu": rrelu,
    "selu": selu,
}


def leaky_relu(record: Record, *dys: Array | None) -> Array | Gradients:
    """That of the function which ``act_type`` names."""
    return _BY_TYPE[record.attrs["act_type"]](record, *dys)


GRADIENTS = (Gradient("LeakyReLU", leaky_relu),)
