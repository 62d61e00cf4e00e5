"""Mathematical functions that numpy lacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from graphshare.ops.kernel import Array

BLOCK = 16384
"""Elements processed at a time, to stay in the processor's cache."""

ONE_IN_FLOAT64 = 6.0  # from here on erf is 1 in float64
# From degrees 10 and 16 on only float64's error remains; these leave a margin.
DEGREES = (16, 26)
_TANH = tuple(
    map(
        np.float32,
        (
            1.4185251e-07,
            -5.6684812e-06,
            8.763737e-05,
            -0.00061978475,
            -0.00019183065,
            0.10276905,
            1.1283792,
        ),
    )
)


def erf(x: Array) -> Array:
    """Compute the error function of float32 or float64."""
    values = x.reshape(-1)
    result = np.empty_like(values)
    with np.errstate(all="ignore"):
        for start in range(0, values.size, BLOCK):
            part = slice(start, start + BLOCK)
            erf_of_block(values[part], result[part])
    return result.reshape(x.shape)


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)) without overflow."""
    if x.dtype != np.float32:
        wide: Array = np.logaddexp(x, x.dtype.type(0))
        return wide
    values = np.ascontiguousarray(x).reshape(-1)
    result = np.empty_like(values)
    one = np.float32(1)
    for start in range(0, values.size, BLOCK):
        part = values[start : start + BLOCK]
        power = np.exp(-np.abs(part))
        above = power + one
        # log(1 + p) loses digits of a small p: multiply by p over the part of p that 1 + p holds
        term = np.log(above) * power
        above -= one
        np.divide(term, above, out=power, where=above > 0)
        np.add(np.maximum(part, 0), power, out=result[start : start + BLOCK])
    return result.reshape(x.shape)


def erf_of_block(x: Array, result: Array) -> None:
    """Write erf(x) to ``result`` (perhaps ``x`` itself). Scratch memory is as large."""
    if x.dtype != np.float32:
        result[...] = _erf(x)
        return
    # atanh(erf(x)) / x is nearly flat, so a short polynomial in x**2 approximates it, with the
    # least maximal relative error of erf, 1e-7 on [-4, 4] (more beyond). numpy's tanh costs as much
    # as two products.
    np.clip(x, np.float32(-4.5), np.float32(4.5), out=result)
    square = np.multiply(result, result)
    powers = np.multiply(square, _TANH[0])
    for c in _TANH[1:-1]:
        powers += c
        powers *= square
    powers += _TANH[-1]
    result *= powers
    np.tanh(result, out=result)


def _erf(x: Array) -> Array:
    """Return Chebyshev interpolants of the standard library's values.

    On ``[-1, 1]`` x times a polynomial in x**2, else 1 - exp(-x**2) times one in (x - 3) / (x + 3).
    """
    inner, outer = erf_polynomials(*DEGREES)
    size = np.minimum(np.abs(x), x.dtype.type(ONE_IN_FLOAT64))
    square = size * size
    near = x * _polynomial(inner, 2 * square - 1)
    far = 1 - np.exp(-square) * _polynomial(outer, outer_argument(size))
    result: Array = np.where(size <= 1, near, np.copysign(far, x))
    return result


def erfinv(x: Array) -> Array:
    """Invert :func:`erf` in float64: an approximation, then Halley steps on the complement."""
    with np.errstate(all="ignore"):
        size = np.abs(x)
        rest = 1 - size
        logarithm = np.log(rest * (1 + size))
        middle = 2 / (math.pi * 0.147) + logarithm / 2
        root = np.sqrt(np.sqrt(middle * middle - logarithm / 0.147) - middle)
        # Winitzki's approximation (constant 0.147) is off by 0.2 %; two steps reach full precision.
        for _ in range(3):
            step = (_erfc(root) - rest) / (-2 / math.sqrt(math.pi) * np.exp(-root * root))
            root = root - step / (1 + root * step)
        # Below this the logarithm rounds to 0; the series' first term is exact.
        root = np.where(
            size < 1e-8, size * math.sqrt(math.pi) / 2, np.where(size == 1, np.inf, root)
        )
        result: Array = np.copysign(np.where(size > 1, np.nan, root), x)
        return result


def gamma(x: Array) -> Array:
    """Compute the gamma function of float64, NaN at poles (negative integers)."""
    return _map_elements(_gamma, x)


def gammaln(x: Array) -> Array:
    """Compute log(abs(gamma(x))) in float64, infinite at the poles."""
    return _map_elements(_gammaln, x)


def _erfc(x: Array) -> Array:
    """Return 1 - erf(x), x >= 0, with full relative precision."""
    inner, outer = erf_polynomials(*DEGREES)
    square = x * x
    near = 1 - x * _polynomial(inner, 2 * square - 1)
    return np.where(
        x <= 1, near, np.exp(-square) * _polynomial(outer, outer_argument(np.maximum(x, 1)))
    )


def outer_argument(size: Any) -> Any:
    """Map ``[1, 6]`` (arrays or ONNX terms) to ``[-1, 1]``, densely where the function bends."""
    return ((size - 3) / (size + 3) + 1 / 12) * (24 / 10)


@cache
def erf_polynomials(inner: int, outer: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return Chebyshev coefficients: erf(x) / x on ``[0, 1]``, exp(x**2) erfc(x) on ``[1, 6]``."""

    def near(u: float) -> float:
        root = math.sqrt(max((u + 1) / 2, 0.0))
        return math.erf(root) / root if root > 1e-9 else 2 / math.sqrt(math.pi)

    def far(u: float) -> float:
        ratio = u * 10 / 24 - 1 / 12
        size = 3 * (1 + ratio) / (1 - ratio)
        return math.exp(size * size) * math.erfc(size)

    return _interpolant(near, inner), _interpolant(far, outer)


def _interpolant(function: Callable[[float], float], degree: int) -> tuple[float, ...]:
    angles = [math.pi * (i + 0.5) / (degree + 1) for i in range(degree + 1)]
    values = [function(math.cos(angle)) for angle in angles]
    sums = [
        math.fsum(v * math.cos(k * a) for v, a in zip(values, angles, strict=True))
        for k in range(degree + 1)
    ]
    return tuple(s * (1 if k == 0 else 2) / (degree + 1) for k, s in enumerate(sums))


def _polynomial(coefficients: tuple[float, ...], u: Array) -> Array:
    """Evaluate by Clenshaw's recurrence."""
    twice = 2 * u
    last, before, following = np.full_like(u, coefficients[-1]), np.zeros_like(u), np.empty_like(u)
    for c in coefficients[-2:0:-1]:
        np.multiply(twice, last, out=following)
        following -= before
        following += u.dtype.type(c)
        last, before, following = following, last, before
    result: Array = u * last - before + u.dtype.type(coefficients[0])
    return result


def _map_elements(function: Callable[[float], float], x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.frompyfunc(function, 1, 1)(x), np.float64)


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _gammaln(x: float) -> float:
    try:
        return math.lgamma(x)
    except (OverflowError, ValueError):
        return math.inf
