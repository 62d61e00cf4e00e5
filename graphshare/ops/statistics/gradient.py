"""Gradients of the numpy interface's averages, norms and differences."""

from __future__ import annotations

from math import isinf

import numpy as np

from graphshare.ops.gradient import Gradient, GradientError, Gradients, TapeEntry, no_gradient
from graphshare.ops.kernel import Array
from graphshare.ops.reduction.kernel import np_axes_of
from graphshare.ops.statistics.kernel import matrix_order, norm_axes


def _spread(x: Array, reduced: Array, axes: tuple[int, ...]) -> Array:
    """What was reduced along ``axes`` of x with these axes back, as 1."""
    return reduced.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])


def average(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Of the numbers and of their weights; the sum of weights, which may be given too, has none."""
    x, *weights = entry.inputs
    axes = np_axes_of(entry.attrs, x.ndim)
    gradient = _spread(x, dy, axes)
    if not weights:
        count = x.size // max(1, dy.size)
        return [np.broadcast_to(gradient / max(1, count), x.shape).astype(x.dtype, copy=False)]
    (given,) = weights
    of_axis = given.ndim != x.ndim
    wide = given.reshape([-1 if axis in axes else 1 for axis in range(x.ndim)]) if of_axis else given
    share = gradient / wide.sum(axis=axes, keepdims=True)
    dx = np.broadcast_to(share * wide, x.shape)
    dw = share * (x - _spread(x, entry.outputs[0], axes))
    if of_axis:
        dw = dw.sum(axis=tuple(axis for axis in range(x.ndim) if axis not in axes))
    return [dx.astype(x.dtype, copy=False), dw.astype(given.dtype, copy=False)]


def norm(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Of vectors or matrices; where several rows, columns or values are the greatest (or least), each gets all of it.

    MXNet takes the gradient of the output twice for all norms of matrices but the nuclear one and that of Frobenius.
    """
    x, flag, order = entry.inputs[0], entry.attrs["flag"], entry.attrs["ord"]
    axes = norm_axes(entry.attrs, x.ndim)
    whole, gradient = _spread(x, entry.outputs[0], axes), _spread(x, dy, axes)
    if flag == -2 or (flag == 1 and len(axes) == 2):
        found = gradient * x / whole
    elif len(axes) == 2:
        rule = _of_sums if order not in (2, -2) else _nuclear if flag == 2 else _spectral
        found = rule(x, axes, order, gradient)
    elif isinf(order):
        raise GradientError("MXNet has no greatest or least number for a norm of vectors")
    elif order == 1:
        found = gradient * np.sign(x)
    else:
        slope = np.power(np.abs(x) / whole, x.dtype.type(order - 1)) * np.sign(x) if order else np.zeros_like(x)
        found = gradient * slope
    return np.asarray(found).astype(x.dtype, copy=False)


def _of_sums(x: Array, axes: tuple[int, ...], order: float, gradient: Array) -> Array:
    """The signs in the column (or row) with the greatest (or least) sum of absolute values."""
    named = matrix_order(order)
    sums = np.abs(x).sum(axis=axes[0 if named in (1, -1) else 1], keepdims=True)
    chosen = sums.max(axis=axes, keepdims=True) if named > 0 else sums.min(axis=axes, keepdims=True)
    return np.asarray(gradient * gradient * np.sign(x) * (sums == chosen))


def _nuclear(x: Array, axes: tuple[int, ...], order: float, gradient: Array) -> Array:
    """The product of the vectors of all singular values."""
    left, _, right = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), full_matrices=False)
    return np.asarray(gradient * np.moveaxis(left @ right, (-2, -1), axes))


def _spectral(x: Array, axes: tuple[int, ...], order: float, gradient: Array) -> Array:
    """The product of the vectors of the greatest (or least) singular value.

    The values are weighed in the order of the input's axes, and MXNet reads the weights in the order of its matrices, which
    is another one unless these are the last two axes.
    """
    left, values, right = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), full_matrices=False)
    column = np.moveaxis(values[..., None], (-2, -1), axes)
    chosen = column.max(axis=axes, keepdims=True) if order > 0 else column.min(axis=axes, keepdims=True)
    weights = np.where(column == chosen, gradient, 0).reshape(values.shape)
    return np.asarray(gradient * np.moveaxis((left * weights[..., None, :]) @ right, (-2, -1), axes))


def _undone(dy: Array, axis: int) -> Array:
    """The gradient of what differences along an axis were taken of: each number less the next one, outside which is 0."""
    border = [(1, 1) if i == axis % dy.ndim else (0, 0) for i in range(dy.ndim)]
    return -np.diff(np.pad(dy, border), axis=axis)


def diff(entry: TapeEntry, dy: Array) -> Array | None:
    """The differences of the gradient, backwards, as often."""
    if not dy.size:
        return None
    for _ in range(entry.attrs["n"]):
        dy = _undone(dy, entry.attrs["axis"])
    return dy


def ediff1d(entry: TapeEntry, dy: Array) -> Gradients:
    """Of the numbers, and of arrays before and after the differences."""
    x, *ends = entry.inputs
    sizes = []
    given = list(ends)
    for key in ("to_begin", "to_end"):
        is_array = entry.attrs[f"{key}_arr_given"]
        sizes.append(given.pop(0).size if is_array else int(entry.attrs[f"{key}_scalar"] is not None))
    begin, inner, end = np.split(dy, [sizes[0], dy.size - sizes[1]])
    dx = _undone(inner, 0).reshape(x.shape) if x.size else np.zeros_like(x)
    outer = [part for key, part in (("to_begin", begin), ("to_end", end)) if entry.attrs[f"{key}_arr_given"]]
    return [dx, *(part.reshape(side.shape) for part, side in zip(outer, ends, strict=True))]


GRADIENTS = (
    Gradient("_npi_average", average),
    Gradient("_npi_norm", norm),
    Gradient("_npi_diff", diff, reads_inputs=False, reads_outputs=False),
    Gradient("_npi_ediff1d", ediff1d, reads_outputs=False),
    *no_gradient("MXNet's gradient of it is zero everywhere", "_npi_std", "_npi_var"),
    *no_gradient(
        "what it gives is counted, compared or constant",
        "_contrib_allclose",
        "_histogram",
        "_np_all",
        "_np_any",
        "_npi_percentile",
    ),
)
