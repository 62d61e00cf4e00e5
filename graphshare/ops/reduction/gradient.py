"""Gradients of reductions: the output's gradient, broadcast over the reduced axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from graphshare.ops.gradient import Gradient, GradientError, TapeEntry, no_gradient
from graphshare.ops.kernel import Array
from graphshare.ops.reduction.kernel import axes_of, np_axes_of

AxesRule = Callable[..., tuple[int, ...]]


def _restore_axes(entry: TapeEntry, reduced: Array, axes_rule: AxesRule = axes_of) -> Array:
    """Return an output (or its gradient) with the reduced axes as 1."""
    x = entry.inputs[0]
    axes = axes_rule(entry.attrs, x.ndim, "axes" if "axes" in entry.attrs else "axis")
    return reduced.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])


def sum_gradient(entry: TapeEntry, dy: Array, *, axes_rule: AxesRule = axes_of) -> Array:
    """Return ``dy`` for every element."""
    x = entry.inputs[0]
    return np.broadcast_to(_restore_axes(entry, dy, axes_rule), x.shape).astype(x.dtype, copy=False)


def mean(entry: TapeEntry, dy: Array, *, axes_rule: AxesRule = axes_of) -> Array:
    """Return ``dy`` divided by the number of elements of each mean."""
    x = entry.inputs[0]
    share = _restore_axes(entry, dy, axes_rule) / max(1, x.size // max(1, dy.size))
    return np.broadcast_to(share, x.shape).astype(x.dtype, copy=False)


def extremum_gradient(entry: TapeEntry, dy: Array, *, axes_rule: AxesRule = axes_of) -> Array:
    """Return ``dy`` for every element that is the maximum (or minimum); each of several gets all of it."""
    x = entry.inputs[0]
    result: Array = _restore_axes(entry, dy, axes_rule) * (x == _restore_axes(entry, entry.outputs[0], axes_rule))
    return result.astype(x.dtype, copy=False)


def product_gradient(entry: TapeEntry, dy: Array, *, axes_rule: AxesRule = axes_of) -> Array:
    """Return the product of the other elements, by division: NaN for an element that is 0, as in MXNet."""
    x = entry.inputs[0]
    result: Array = _restore_axes(entry, dy, axes_rule) * (_restore_axes(entry, entry.outputs[0], axes_rule) / x)
    return result.astype(x.dtype, copy=False)


def nansum_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` for every element that is not NaN."""
    x = entry.inputs[0]
    return np.where(np.isnan(x), x.dtype.type(0), sum_gradient(entry, dy))


def nanprod_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of :func:`product_gradient` for every element that is not NaN."""
    x = entry.inputs[0]
    return np.where(np.isnan(x), x.dtype.type(0), product_gradient(entry, dy))


def norm(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` times the sign (``ord`` 1), or times the element divided by the norm."""
    x = entry.inputs[0]
    slope = np.sign(x) if entry.attrs["ord"] == 1 else x / _restore_axes(entry, entry.outputs[0])
    result: Array = _restore_axes(entry, dy) * slope
    return result.astype(x.dtype, copy=False)


def moments(entry: TapeEntry, dmean: Array, dvariance: Array | None) -> Array:
    """Return the gradient from those of the mean and of the variance, ``2 (x - mean) / n``."""
    x = entry.inputs[0]
    count = x.size // max(1, dmean.size)
    result: Array = _restore_axes(entry, dmean) / count
    if dvariance is not None:
        result = result + _restore_axes(entry, dvariance) * 2 * (x - _restore_axes(entry, entry.outputs[0])) / count
    return np.broadcast_to(result, x.shape).astype(x.dtype, copy=False)


def cumsum(entry: TapeEntry, dy: Array) -> Array:
    """Return the running sum of ``dy`` from the end."""
    x, axis = entry.inputs[0], entry.attrs["axis"]
    if axis is None:
        dy = dy.reshape(-1)
    result: Array = np.flip(np.cumsum(np.flip(dy, axis or 0), axis=axis or 0), axis or 0)
    return np.asarray(result.reshape(x.shape).astype(x.dtype, copy=False))


def np_product_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of :func:`product_gradient` in the numpy interface."""
    if entry.inputs[0].dtype.kind != "f":
        raise GradientError("the product of integers has no gradient")
    return product_gradient(entry, dy, axes_rule=np_axes_of)


GRADIENTS = (
    Gradient("sum", sum_gradient, reads_outputs=False),
    Gradient("_np_sum", partial(sum_gradient, axes_rule=np_axes_of), reads_outputs=False),
    Gradient("mean", mean, reads_outputs=False),
    Gradient("_npi_mean", partial(mean, axes_rule=np_axes_of), reads_outputs=False),
    *(Gradient(name, extremum_gradient) for name in ("max", "min")),
    *(Gradient(name, partial(extremum_gradient, axes_rule=np_axes_of)) for name in ("_np_max", "_np_min")),
    Gradient("prod", product_gradient),
    Gradient("_np_prod", np_product_gradient),
    Gradient("nansum", nansum_gradient, reads_outputs=False),
    Gradient("nanprod", nanprod_gradient),
    Gradient("norm", norm),
    Gradient("moments", moments),
    Gradient("_np_cumsum", cumsum, reads_outputs=False),
    *no_gradient("an index has no derivative", "argmax", "argmin", "argmax_channel", "_npi_argmax", "_npi_argmin"),
)
