"""Gradients of reductions: the output's gradient, stretched over what was reduced."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from graphshare.gradients.gradient import Gradient, GradientError, Record, no_gradient
from graphshare.kernels.kernel import Array
from graphshare.kernels.reduction import axes_of, np_axes_of

AxesRule = Callable[..., tuple[int, ...]]


def _spread(record: Record, reduced: Array, named: AxesRule = axes_of) -> Array:
    """An output (or its gradient) with the vanished axes back, as 1."""
    x = record.inputs[0]
    axes = named(record.attrs, x.ndim, "axes" if "axes" in record.attrs else "axis")
    return reduced.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])


def total(record: Record, dy: Array, *, named: AxesRule = axes_of) -> Array:
    """To every element."""
    x = record.inputs[0]
    return np.broadcast_to(_spread(record, dy, named), x.shape).astype(x.dtype, copy=False)


def mean(record: Record, dy: Array, *, named: AxesRule = axes_of) -> Array:
    """To every element its share."""
    x = record.inputs[0]
    share = _spread(record, dy, named) / max(1, x.size // max(1, dy.size))
    return np.broadcast_to(share, x.shape).astype(x.dtype, copy=False)


def extreme(record: Record, dy: Array, *, named: AxesRule = axes_of) -> Array:
    """To every element that is the greatest (or least): where several are, each gets all of it."""
    x = record.inputs[0]
    result: Array = _spread(record, dy, named) * (x == _spread(record, record.outputs[0], named))
    return result.astype(x.dtype, copy=False)


def product(record: Record, dy: Array, *, named: AxesRule = axes_of) -> Array:
    """The product without the element, by division: NaN for one that is 0, as in MXNet."""
    x = record.inputs[0]
    result: Array = _spread(record, dy, named) * (_spread(record, record.outputs[0], named) / x)
    return result.astype(x.dtype, copy=False)


def total_without_nan(record: Record, dy: Array) -> Array:
    """To every element that is a number."""
    x = record.inputs[0]
    return np.where(np.isnan(x), x.dtype.type(0), total(record, dy))


def product_without_nan(record: Record, dy: Array) -> Array:
    """As :func:`product`, to every element that is a number."""
    x = record.inputs[0]
    return np.where(np.isnan(x), x.dtype.type(0), product(record, dy))


def norm(record: Record, dy: Array) -> Array:
    """The sign (``ord`` 1), or the element divided by the norm."""
    x = record.inputs[0]
    slope = np.sign(x) if record.attrs["ord"] == 1 else x / _spread(record, record.outputs[0])
    result: Array = _spread(record, dy) * slope
    return result.astype(x.dtype, copy=False)


def moments(record: Record, dmean: Array, dvariance: Array | None) -> Array:
    """Of the mean, and of the variance: ``2 (x - mean) / n``."""
    x = record.inputs[0]
    count = x.size // max(1, dmean.size)
    result: Array = _spread(record, dmean) / count
    if dvariance is not None:
        result = result + _spread(record, dvariance) * 2 * (x - _spread(record, record.outputs[0])) / count
    return np.broadcast_to(result, x.shape).astype(x.dtype, copy=False)


def cumsum(record: Record, dy: Array) -> Array:
    """The running sum from the end."""
    x, axis = record.inputs[0], record.attrs["axis"]
    if axis is None:
        dy = dy.reshape(-1)
    result: Array = np.flip(np.cumsum(np.flip(dy, axis or 0), axis=axis or 0), axis or 0)
    return np.asarray(result.reshape(x.shape).astype(x.dtype, copy=False))


def np_product(record: Record, dy: Array) -> Array:
    """As :func:`product`, of the numpy interface."""
    if record.inputs[0].dtype.kind != "f":
        raise GradientError("it is of whole numbers")
    return product(record, dy, named=np_axes_of)


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
