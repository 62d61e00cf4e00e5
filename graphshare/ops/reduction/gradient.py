"""Gradients of reductions: the output's gradient, stretched over what was reduced."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from graphshare.ops.gradient import Gradient, GradientError, TapeEntry, no_gradient
from graphshare.ops.kernel import Array
from graphshare.ops.reduction.kernel import axes_of, np_axes_of

AxesRule = Callable[..., tuple[int, ...]]


def _spread(entry: TapeEntry, reduced: Array, named: AxesRule = axes_of) -> Array:
    """An output (or its gradient) with the vanished axes back, as 1."""
    x = entry.inputs[0]
    axes = named(entry.attrs, x.ndim, "axes" if "axes" in entry.attrs else "axis")
    return reduced.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])


def total(entry: TapeEntry, dy: Array, *, named: AxesRule = axes_of) -> Array:
    """To every element."""
    x = entry.inputs[0]
    return np.broadcast_to(_spread(entry, dy, named), x.shape).astype(x.dtype, copy=False)


def mean(entry: TapeEntry, dy: Array, *, named: AxesRule = axes_of) -> Array:
    """To every element its share."""
    x = entry.inputs[0]
    share = _spread(entry, dy, named) / max(1, x.size // max(1, dy.size))
    return np.broadcast_to(share, x.shape).astype(x.dtype, copy=False)


def extreme(entry: TapeEntry, dy: Array, *, named: AxesRule = axes_of) -> Array:
    """To every element that is the greatest (or least): where several are, each gets all of it."""
    x = entry.inputs[0]
    result: Array = _spread(entry, dy, named) * (x == _spread(entry, entry.outputs[0], named))
    return result.astype(x.dtype, copy=False)


def product(entry: TapeEntry, dy: Array, *, named: AxesRule = axes_of) -> Array:
    """The product without the element, by division: NaN for one that is 0, as in MXNet."""
    x = entry.inputs[0]
    result: Array = _spread(entry, dy, named) * (_spread(entry, entry.outputs[0], named) / x)
    return result.astype(x.dtype, copy=False)


def total_without_nan(entry: TapeEntry, dy: Array) -> Array:
    """To every element that is a number."""
    x = entry.inputs[0]
    return np.where(np.isnan(x), x.dtype.type(0), total(entry, dy))


def product_without_nan(entry: TapeEntry, dy: Array) -> Array:
    """As :func:`product`, to every element that is a number."""
    x = entry.inputs[0]
    return np.where(np.isnan(x), x.dtype.type(0), product(entry, dy))


def norm(entry: TapeEntry, dy: Array) -> Array:
    """The sign (``ord`` 1), or the element divided by the norm."""
    x = entry.inputs[0]
    slope = np.sign(x) if entry.attrs["ord"] == 1 else x / _spread(entry, entry.outputs[0])
    result: Array = _spread(entry, dy) * slope
    return result.astype(x.dtype, copy=False)


def moments(entry: TapeEntry, dmean: Array, dvariance: Array | None) -> Array:
    """Of the mean, and of the variance: ``2 (x - mean) / n``."""
    x = entry.inputs[0]
    count = x.size // max(1, dmean.size)
    result: Array = _spread(entry, dmean) / count
    if dvariance is not None:
        result = result + _spread(entry, dvariance) * 2 * (x - _spread(entry, entry.outputs[0])) / count
    return np.broadcast_to(result, x.shape).astype(x.dtype, copy=False)


def cumsum(entry: TapeEntry, dy: Array) -> Array:
    """The running sum from the end."""
    x, axis = entry.inputs[0], entry.attrs["axis"]
    if axis is None:
        dy = dy.reshape(-1)
    result: Array = np.flip(np.cumsum(np.flip(dy, axis or 0), axis=axis or 0), axis or 0)
    return np.asarray(result.reshape(x.shape).astype(x.dtype, copy=False))


def np_product(entry: TapeEntry, dy: Array) -> Array:
    """As :func:`product`, of the numpy interface."""
    if entry.inputs[0].dtype.kind != "f":
        raise GradientError("it is of whole numbers")
    return product(entry, dy, named=np_axes_of)


GRADIENTS = (
    Gradient("sum", total, reads_outputs=False),
    Gradient("_np_sum", partial(total, named=np_axes_of), reads_outputs=False),
    Gradient("mean", mean, reads_outputs=False),
    Gradient("_npi_mean", partial(mean, named=np_axes_of), reads_outputs=False),
    *(Gradient(name, extreme) for name in ("max", "min")),
    *(Gradient(name, partial(extreme, named=np_axes_of)) for name in ("_np_max", "_np_min")),
    Gradient("prod", product),
    Gradient("_np_prod", np_product),
    Gradient("nansum", total_without_nan, reads_outputs=False),
    Gradient("nanprod", product_without_nan),
    Gradient("norm", norm),
    Gradient("moments", moments),
    Gradient("_np_cumsum", cumsum, reads_outputs=False),
    *no_gradient("a place is no value", "argmax", "argmin", "argmax_channel", "_npi_argmax", "_npi_argmin"),
)
