"""Gradients of activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphshare.ops.conversion import to_floating
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, sum_to_shape
from graphshare.ops.kernel import Array
from graphshare.ops.special_functions import erf
from graphshare.ops.windows import to_compute_dtype


def relu(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient where the output is positive, otherwise 0; NaN stays NaN."""
    y = entry.outputs[0]
    result: Array = np.multiply(dy, y > 0)
    return np.where(np.isnan(y), y, result) if np.isnan(y.sum()) else result


def sigmoid(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy y (1 - y)``."""
    y = entry.outputs[0]
    result: Array = dy * (y * (1 - y))
    return result


def tanh(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy (1 - y^2)``."""
    y = entry.outputs[0]
    result: Array = dy * (1 - y * y)
    return result


def softrelu(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy (1 - exp(-y))``: the derivative is the sigmoid of the input."""
    result: Array = dy * -np.expm1(-entry.outputs[0])
    return result


def softsign(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy / (1 + |x|)^2``."""
    slope = 1 / np.square(1 + np.abs(to_compute_dtype(entry.inputs[0])))  # the square overflows in float16
    return np.asarray((dy * slope).astype(dy.dtype, copy=False))


BY_TYPE: dict[str, Callable[[TapeEntry, Array], Array]] = {
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "softrelu": softrelu,
    "softsign": softsign,
}


def activation(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of the function that ``act_type`` names."""
    return BY_TYPE[entry.attrs["act_type"]](entry, dy)


_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def leaky(entry: TapeEntry, dy: Array) -> Array:
    """Return ``slope dy`` at 0 and below, otherwise ``dy``."""
    return np.where(entry.inputs[0] <= 0, dy * dy.dtype.type(entry.attrs["slope"]), dy)


def elu(entry: TapeEntry, dy: Array) -> Array:
    """Return ``slope exp(x) dy`` at 0 and below, otherwise ``dy``."""
    x = entry.inputs[0]
    return np.where(x > 0, dy, dy * np.exp(np.minimum(x, 0)) * dy.dtype.type(entry.attrs["slope"]))


def selu(entry: TapeEntry, dy: Array) -> Array:
    """Return ``scale (alpha + y) dy`` at 0 and below, as in MXNet; the derivative would be ``scale * alpha + y``."""
    x, y = entry.inputs[0], to_compute_dtype(entry.outputs[0])
    slope = np.where(x > 0, _SELU_SCALE, _SELU_SCALE * (_SELU_ALPHA + y))
    return np.asarray(dy * slope.astype(dy.dtype))


def gelu(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` times the normal distribution function plus ``x`` times its density."""
    x = to_floating(entry.inputs[0])
    slope = (1 + erf(x * x.dtype.type(math.sqrt(0.5)))) * x.dtype.type(0.5)
    slope += x * np.exp(-x * x / 2) * x.dtype.type(1 / math.sqrt(2 * math.pi))
    return np.asarray((dy * slope).astype(dy.dtype, copy=False))


def rrelu(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return ``dy`` times the random slope, or outside training the middle of the bounds, at 0 and below."""
    x, slopes = entry.inputs[0], entry.outputs[1]
    if not entry.training:
        slopes = dy.dtype.type((entry.attrs["lower_bound"] + entry.attrs["upper_bound"]) / 2)
    return np.where(x > 0, dy, dy * slopes)


def prelu(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of data and slopes."""
    x, gamma = entry.inputs
    slopes = gamma.reshape((gamma.size,) + (1,) * (x.ndim - 2)) if gamma.ndim == 1 and x.ndim > 1 else gamma
    below = x <= 0
    dgamma = sum_to_shape(dy * x * below, slopes.shape if slopes.size != 1 else (1,) * x.ndim)
    return [np.where(below, dy * slopes, dy), dgamma.reshape(gamma.shape)]


_BY_TYPE: dict[str, Callable[..., Array | Gradients]] = {
    "elu": elu,
    "gelu": gelu,
    "leaky": leaky,
    "prelu": prelu,
    "rrelu": rrelu,
    "selu": selu,
}


def leaky_relu(entry: TapeEntry, *dys: Array | None) -> Array | Gradients:
    """Return the gradient of the function that ``act_type`` names."""
    return _BY_TYPE[entry.attrs["act_type"]](entry, *dys)


GRADIENTS = (
    Gradient("Activation", activation),
    *(Gradient(name, BY_TYPE[name], reads_inputs=False) for name in ("relu", "sigmoid", "tanh")),
    Gradient("softsign", softsign, reads_outputs=False),
    Gradient("LeakyReLU", leaky_relu),
)
