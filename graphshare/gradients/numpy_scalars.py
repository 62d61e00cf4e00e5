"""Gradients of the numpy interface between an array and a number, of polynomials, and of choices."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np

from graphshare.gradients.gradient import Gradient, Gradients, Record, Vjp, no_gradient, summed_to
from graphshare.kernels.kernel import Array

_LN2 = log(2.0)


def _fitted(gradient: Array, side: Array) -> Array:
    return summed_to(np.asarray(gradient), side.shape).astype(side.dtype, copy=False)


def _of_number(slope: Callable[[Array, float], Array]) -> Vjp:
    """The gradient times the slope by the array."""

    def vjp(record: Record, dy: Array) -> Array:
        (x,) = record.inputs
        return _fitted(dy * slope(x, record.attrs["scalar"]), x)

    return vjp


def _arctan2(x: Array, number: float) -> Array:
    return np.asarray(number / (x * x + number * number))


def _rarctan2(x: Array, number: float) -> Array:
    """Of the angle of (x, number) it would be ``-number / (x^2 + number^2)``; MXNet puts x above."""
    return np.asarray(-x / (x * x + number * number))


def _ldexp(x: Array, exponent: float) -> Array:
    return np.full_like(x, np.float64(2.0) ** exponent)


def _rldexp(exponent: Array, number: float) -> Array:
    return np.asarray(number * np.exp2(exponent) * _LN2)


def ldexp(record: Record, dy: Array) -> Gradients:
    """Of the number and of its exponent."""
    x, exponent = record.inputs
    scaled = dy * np.exp2(exponent)
    return [_fitted(scaled, x), _fitted(scaled * x * _LN2, exponent)]


def copysign(record: Record, dy: Array) -> Array:
    """Of the number, turned round where its sign was; of the other one nothing but the sign is read."""
    x, of = record.inputs
    kept = ((x >= 0) & (of >= 0)) | ((x < 0) & (of < 0))
    return _fitted(np.where(kept, dy, -dy), x)


def nan_to_num(record: Record, dy: Array) -> Array:
    """To every element that was a finite number."""
    (x,) = record.inputs
    return np.where(np.isfinite(x), dy, dy.dtype.type(0))


def polyval(record: Record, dy: Array) -> Gradients:
    """Of the coefficients the powers of x, of x the polynomial's derivative."""
    p, x = record.inputs
    dp = dy.reshape(-1) @ np.vander(x.reshape(-1), len(p))
    return [dp.astype(p.dtype, copy=False), _fitted(dy * np.polyval(np.polyder(p), x), x)]


def _where(*, left: bool) -> Vjp:
    """Of the array, beside a number on the left or on the right.

    With the number on the left the array is where the condition is 0, and on the right where it is not; but MXNet has both the
    wrong way round, except for an array on the left that was stretched.
    """

    def vjp(record: Record, dy: Array) -> Gradients:
        condition, x = record.inputs
        chosen = (condition != 0) == (left or x.shape != dy.shape)
        return [None, _fitted(np.where(chosen, dy, dy.dtype.type(0)), x)]

    return vjp


GRADIENTS = (
    Gradient("_npi_arctan2_scalar", _of_number(_arctan2), reads_outputs=False),
    Gradient("_npi_rarctan2_scalar", _of_number(_rarctan2), reads_outputs=False),
    Gradient("_npi_ldexp_scalar", _of_number(_ldexp), reads_outputs=False),
    Gradient("_npi_rldexp_scalar", _of_number(_rldexp), reads_outputs=False),
    Gradient("_npi_ldexp", ldexp, reads_outputs=False),
    Gradient("_npi_copysign", copysign, reads_outputs=False),
    Gradient("_npi_nan_to_num", nan_to_num, reads_outputs=False),
    Gradient("_npi_polyval", polyval, reads_outputs=False),
    Gradient("_npi_where_lscalar", _where(left=True), reads_outputs=False),
    Gradient("_npi_where_rscalar", _where(left=False), reads_outputs=False),
    *no_gradient("MXNet's gradient of it is zero everywhere", "_npi_where_scalar2"),
    *no_gradient("MXNet's backward pass of it always fails", "_npi_copysign_scalar", "_npi_rcopysign_scalar", is_zero=False),
)
