"""The functions of mathematics that numpy lacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from graphshare.kernels.kernel import Array

_ONE_IN_FLOAT = {np.dtype("float64"): 6.0, np.dtype("float32"): 4.0}  # from here on erf is 1 within the type's precision
_BLOCK = 8192  # elements at a time, which stay in the processor's cache
_DEGREES = {np.dtype("float64"): (16, 26), np.dtype("float32"): (8, 11)}


def erf(x: Array) -> Array:
    """The error function of float32 or float64.

    Inside ``[-1, 1]`` it is x times a polynomial in x**2, outside 1 - exp(-x**2) times a polynomial in (x - 3) / (x + 3).
    Both are Chebyshev interpolants through the values of the standard library.
    """
    values = x.reshape(-1)
    result = np.empty_like(values)
    scratch = np.empty((4, min(_BLOCK, values.size)), x.dtype)
    compute = _erf_fast if x.dtype == np.float32 else _erf
    with np.errstate(all="ignore"):
        for start in range(0, values.size, _BLOCK):
            part = values[start : start + _BLOCK]
            compute(part, result[start : start + _BLOCK], scratch[:, : part.size])
    return result.reshape(x.shape)


def _erf(x: Array, result: Array, scratch: Array) -> None:
    inner, outer = _erf_polynomials(*_DEGREES[x.dtype])
    size = np.minimum(np.abs(x), x.dtype.type(_ONE_IN_FLOAT[x.dtype]))
    square = size * size
    near = x * _polynomial(inner, 2 * square - 1)
    far = 1 - np.exp(-square) * _polynomial(outer, _outer_argument(size))
    result[...] = np.where(size <= 1, near, np.copysign(far, x))


def _erf_fast(x: Array, result: Array, scratch: Array) -> None:
    """As :func:`_erf`, in powers and in place: in float32 that rounds hardly worse and takes a fraction of the time.

    The two sides are added, each held at its value in 1 beyond it, because choosing between them takes longer than both.
    """
    size, bounded, square, far = scratch
    np.abs(x, out=size)
    np.minimum(size, np.float32(1), out=bounded)
    np.multiply(bounded, bounded, out=square)
    _horner(_erf_powers()[0], square, result)
    result *= bounded
    np.maximum(size, np.float32(1), out=size)
    np.minimum(size, np.float32(4), out=size)
    _far_side(size, far, bounded)
    far -= _far_at_one()
    result += far
    np.copysign(result, x, out=result)


def _far_side(size: Array, result: Array, argument: Array) -> None:
    """1 - exp(-x**2) times the polynomial, of ``size`` in [1, 4], which is overwritten."""
    np.add(size, np.float32(3), out=result)
    np.subtract(size, np.float32(3), out=argument)
    argument /= result
    _horner(_erf_powers()[1], argument, result)
    size *= size
    result *= np.exp(np.negative(size, out=size), out=size)
    np.subtract(np.float32(1), result, out=result)


@cache
def _far_at_one() -> np.float32:
    size = np.ones((3, 64), np.float32)
    _far_side(*size)
    found: np.float32 = size[1, 0]
    return found


def _horner(coefficients: tuple[np.float32, ...], u: Array, result: Array) -> None:
    """A polynomial, the highest power first, of ``u``."""
    np.multiply(u, coefficients[0], out=result)
    for c in coefficients[1:-1]:
        result += c
        result *= u
    result += coefficients[-1]


@cache
def _erf_powers() -> tuple[tuple[np.float32, ...], tuple[np.float32, ...]]:
    """The polynomials in x**2 and in (x - 3) / (x + 3) by powers, the highest first."""
    inner, outer = _erf_polynomials(*_DEGREES[np.dtype("float32")])
    found = []
    # The series are in 2 x**2 - 1 and in ((x - 3) / (x + 3) + 1/12) * 24/10.
    for series, domain in ((inner, (0, 1)), (outer, (-1 / 2, 1 / 3))):
        powers = np.polynomial.Chebyshev(series, domain=domain).convert(kind=np.polynomial.Polynomial, domain=(-1, 1))
        found.append(tuple(powers.coef[::-1].astype(np.float32)))
    return found[0], found[1]


def erfinv(x: Array) -> Array:
    """The inverse of :func:`erf`, on float64: a close guess, then steps of Halley's method on the complement."""
    with np.errstate(all="ignore"):
        size = np.abs(x)
        rest = 1 - size
        logarithm = np.log(rest * (1 + size))
        middle = 2 / (math.pi * 0.147) + logarithm / 2
        root = np.sqrt(np.sqrt(middle * middle - logarithm / 0.147) - middle)
        for _ in range(3):
            step = (_erfc(root) - rest) / (-2 / math.sqrt(math.pi) * np.exp(-root * root))
            root = root - step / (1 + root * step)
        root = np.where(size < 1e-8, size * math.sqrt(math.pi) / 2, np.where(size == 1, np.inf, root))
        result: Array = np.copysign(np.where(size > 1, np.nan, root), x)
        return result


def gamma(x: Array) -> Array:
    """The gamma function, on float64. The poles at negative integers have no value."""
    return _by_element(_gamma, x)


def gammaln(x: Array) -> Array:
    """The logarithm of the absolute value of the gamma function, on float64. It is infinite at the poles."""
    return _by_element(_gammaln, x)


def _erfc(x: Array) -> Array:
    """1 - erf(x) for x >= 0, with full relative precision."""
    inner, outer = _erf_polynomials(16, 26)
    square = x * x
    near = 1 - x * _polynomial(inner, 2 * square - 1)
    return np.where(x <= 1, near, np.exp(-square) * _polynomial(outer, _outer_argument(np.maximum(x, 1))))


def _outer_argument(size: Array) -> Array:
    """``[1, 6]`` to ``[-1, 1]``, dense where the function bends."""
    result: Array = ((size - 3) / (size + 3) + 1 / 12) * (24 / 10)
    return result


@cache
def _erf_polynomials(inner: int, outer: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Chebyshev coefficients of erf(x) / x on ``[0, 1]`` and of exp(x**2) erfc(x) on ``[1, 6]``."""

    def near(u: float) -> float:
        root = math.sqrt(max((u + 1) / 2, 0.0))
        return math.erf(root) / root if root > 1e-9 else 2 / math.sqrt(math.pi)

    def far(u: float) -> float:
        ratio = u * 10 / 24 - 1 / 12
        size = 3 * (1 + ratio) / (1 - ratio)
        return math.exp(size * size) * math.erfc(size)

    return _interpolant(near, inner), _interpolant(far, outer)


def _interpolant(function: Callable[[float], float], degree: int) -> tuple[float, ...]:
    """The Chebyshev series of this degree that meets the function at the zeros of the next polynomial."""
    angles = [math.pi * (i + 0.5) / (degree + 1) for i in range(degree + 1)]
    values = [function(math.cos(angle)) for angle in angles]
    sums = [math.fsum(v * math.cos(k * a) for v, a in zip(values, angles, strict=True)) for k in range(degree + 1)]
    return tuple(s * (1 if k == 0 else 2) / (degree + 1) for k, s in enumerate(sums))


def _polynomial(coefficients: tuple[float, ...], u: Array) -> Array:
    """A Chebyshev series by Clenshaw's recurrence, in the type of ``u``."""
    twice = 2 * u
    last, before, following = np.full_like(u, coefficients[-1]), np.zeros_like(u), np.empty_like(u)
    for c in coefficients[-2:0:-1]:
        np.multiply(twice, last, out=following)
        following -= before
        following += u.dtype.type(c)
        last, before, following = following, last, before
    result: Array = u * last - before + u.dtype.type(coefficients[0])
    return result


def _by_element(function: Callable[[float], float], x: Array) -> Array:
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
