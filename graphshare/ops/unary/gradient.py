"""Gradients of functions of one array: the derivative at each element, from the input ``x`` or the output ``y``."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry, Vjp, no_gradient
from graphshare.ops.kernel import Array
from graphshare.ops.special_functions import gamma
from graphshare.ops.unary.kernel import sign

Slope = Callable[[Array], Array]


def digamma(x: Array) -> Array:
    """Return the derivative of the logarithm of the gamma function, in float64; infinite at 0 and negative integers."""
    x = x.astype(np.float64)
    low = x <= 0
    pole = low & (x == np.floor(x))
    up = np.where(low, 1 - x, x)
    result = np.zeros_like(up)
    for _ in range(8):
        small = up < 8
        result -= np.where(small, 1 / np.where(small, up, 1), 0)
        up = np.where(small, up + 1, up)
    square = 1 / (up * up)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))
    result += np.log(up) - 0.5 / up - series
    return np.where(pole, np.inf, np.where(low, result - math.pi / np.tan(math.pi * x), result))


def _gamma(x: Array) -> Array:
    return np.asarray(gamma(x.astype(np.float64)) * digamma(x))


SLOPES_BY_INPUT: dict[str, Slope] = {
    "abs": sign,
    "arccos": lambda x: -1 / np.sqrt(1 - x * x),
    "arccosh": lambda x: 1 / np.sqrt(x * x - 1),
    "arcsin": lambda x: 1 / np.sqrt(1 - x * x),
    "arcsinh": lambda x: 1 / np.sqrt(x * x + 1),
    "arctan": lambda x: 1 / (x * x + 1),
    "arctanh": lambda x: 1 / (1 - x * x),
    "cos": lambda x: -np.sin(x),
    "cosh": np.sinh,
    "erf": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "expm1": np.exp,
    "gamma": _gamma,
    "gammaln": digamma,
    "log": lambda x: 1 / x,
    "log10": lambda x: 1 / (x * math.log(10)),
    "log1p": lambda x: 1 / (1 + x),
    "log2": lambda x: 1 / (x * math.log(2)),
    "rcbrt": lambda x: -1 / (3 * x * np.cbrt(x)),
    "reciprocal": lambda x: -1 / (x * x),
    "rsqrt": lambda x: -0.5 / (x * np.sqrt(x)),
    "sin": np.cos,
    "sinh": np.cosh,
    "square": lambda x: 2 * x,
}


SLOPES_BY_OUTPUT: dict[str, Slope] = {
    "cbrt": lambda y: 1 / (3 * y * y),
    "erfinv": lambda y: 0.5 * math.sqrt(math.pi) * np.exp(y * y),
    "exp": lambda y: y,
    "sqrt": lambda y: 0.5 / y,
    "tan": lambda y: y * y + 1,
}


FACTORS = {
    "negative": -1.0,
    "degrees": 180 / math.pi,
    "radians": math.pi / 180,
    "_copy": 1.0,
    "_copyto": 1.0,
    "_CrossDeviceCopy": 1.0,
    "_contrib_round_ste": 1.0,
    "_contrib_sign_ste": 1.0,
}


_STEPS = "ceil fix floor rint round sign trunc"


def _slope_at(slope: Slope, x: Array) -> Array:
    """Return the slope at ``x``; of float16 computed in float32, where squares do not overflow, and rounded."""
    return slope(x.astype(np.float32)).astype(x.dtype) if x.dtype == np.float16 else slope(x)


def _by_input(slope: Slope) -> Vjp:
    def vjp(entry: TapeEntry, dy: Array) -> Array:
        x = entry.inputs[0]
        result: Array = dy * _slope_at(slope, x)
        return result.astype(x.dtype, copy=False)

    return vjp


def _by_output(slope: Slope) -> Vjp:
    def vjp(entry: TapeEntry, dy: Array) -> Array:
        result: Array = dy * _slope_at(slope, entry.outputs[0])
        return result.astype(dy.dtype, copy=False)

    return vjp


def factor_vjp(factor: float) -> Vjp:
    """Return the backward pass that multiplies the output's gradient by ``factor``."""

    def vjp(entry: TapeEntry, dy: Array) -> Array:
        return dy if factor == 1 else np.asarray(dy * dy.dtype.type(factor))

    return vjp


def ones(entry: TapeEntry, dy: Array) -> Array:
    """Return ones: the operator is a loss."""
    return np.ones_like(entry.inputs[0])


def multiply_scalar(entry: TapeEntry, dy: Array) -> Array:
    """Return ``scalar`` times ``dy``."""
    return np.asarray(dy * dy.dtype.type(entry.attrs["scalar"]))


def clip(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` between the bounds, at them, and for NaN."""
    (x,) = entry.inputs
    outside = (x < np.float32(entry.attrs["a_min"])) | (x > np.float32(entry.attrs["a_max"]))
    return np.where(outside, dy.dtype.type(0), dy)


def hard_sigmoid(entry: TapeEntry, dy: Array) -> Array:
    """Return ``alpha`` times ``dy`` strictly between the bounds."""
    y = entry.outputs[0]
    return np.asarray(dy * dy.dtype.type(entry.attrs["alpha"]) * ((y > 0) & (y < 1)))


def quadratic(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` times ``2 a x + b``."""
    x = entry.inputs[0]
    return np.asarray(dy * (2 * x.dtype.type(entry.attrs["a"]) * x + x.dtype.type(entry.attrs["b"])))


def smooth_l1(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` times ``sigma^2 x``, clipped to -1 and 1."""
    x = entry.inputs[0]
    return np.asarray(dy * np.clip(x.dtype.type(entry.attrs["scalar"]) ** 2 * x, -1, 1))


def slope_gradient(name: str, slope: Slope, *, by_input: bool) -> Gradient:
    """Return the gradient of an operator with this derivative, of the input (``by_input``) or of the output."""
    if by_input:
        return Gradient(name, _by_input(slope), reads_outputs=False)
    return Gradient(name, _by_output(slope), reads_inputs=False)


GRADIENTS = (
    *(slope_gradient(name, slope, by_input=True) for name, slope in SLOPES_BY_INPUT.items()),
    *(slope_gradient(name, slope, by_input=False) for name, slope in SLOPES_BY_OUTPUT.items()),
    *(Gradient(name, factor_vjp(factor), reads_inputs=False, reads_outputs=False) for name, factor in FACTORS.items()),
    Gradient("make_loss", ones, reads_outputs=False, is_loss=True),
    Gradient("_contrib_gradientmultiplier", multiply_scalar, reads_inputs=False, reads_outputs=False),
    Gradient("clip", clip, reads_outputs=False),
    Gradient("hard_sigmoid", hard_sigmoid, reads_inputs=False),
    Gradient("_contrib_quadratic", quadratic, reads_outputs=False),
    Gradient("smooth_l1", smooth_l1, reads_outputs=False),
    *no_gradient("its derivative is 0 wherever there is one", *_STEPS.split(), "logical_not"),
    *no_gradient("it stops gradients", "BlockGrad"),
    *no_gradient("it does not read the values of its input", "zeros_like", "ones_like", "shape_array", "size_array"),
)
