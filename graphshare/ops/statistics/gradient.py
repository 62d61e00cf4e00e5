"""Gradients of the numpy interface's averages, norms and differences."""

from __future__ import annotations

from math import isinf

import numpy as np

from graphshare.ops.gradient import Gradient, GradientError, Gradients, TapeEntry, no_gradient
from graphshare.ops.kernel import Array
from graphshare.ops.reduction.kernel import np_axes_of
from graphshare.ops.statistics.kernel import matrix_order, norm_axes


def _restore_axes(x: Array, reduced: Array, axes: tuple[int, ...]) -> Array:
    """Return an array that was reduced along ``axes`` of ``x`` with these axes as 1."""
    return reduced.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])


def average(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Return the gradients of the numbers and of their weights; the sum of weights has none."""
    x, *weights = entry.inputs
    axes = np_axes_of(entry.attrs, x.ndim)
    gradient = _restore_axes(x, dy, axes)
    if not weights:
        count = x.size // max(1, dy.size)
        return [np.broadcast_to(gradient / max(1, count), x.shape).astype(x.dtype, copy=False)]
    (weight,) = weights
    of_axis = weight.ndim != x.ndim
    wide = weight.reshape([-1 if axis in axes else 1 for axis in range(x.ndim)]) if of_axis else weight
    share = gradient / wide.sum(axis=axes, keepdims=True)
    dx = np.broadcast_to(share * wide, x.shape)
    dw = share * (x - _restore_axes(x, entry.outputs[0], axes))
    if of_axis:
        dw = dw.sum(axis=tuple(axis for axis in range(x.ndim) if axis not in axes))
    return [dx.astype(x.dtype, copy=False), dw.astype(weight.dtype, copy=False)]


def norm(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return the gradient of a vector or matrix norm; each of several maximal (or minimal) rows or values gets all of it.

    MXNet multiplies by ``dy`` twice for all norms of matrices but the nuclear and the Frobenius norm.
    """
    x, flag, order = entry.inputs[0], entry.attrs["flag"], entry.attrs["ord"]
    axes = norm_axes(entry.attrs, x.ndim)
    whole, gradient = _restore_axes(x, entry.outputs[0], axes), _restore_axes(x, dy, axes)
    if flag == -2 or (flag == 1 and len(axes) == 2):
        dx = gradient * x / whole
    elif len(axes) == 2:
        rule = _sum_norm_gradient if order not in (2, -2) else _nuclear_gradient if flag == 2 else _spectral_gradient
        dx = rule(x, axes, order, gradient)
    elif isinf(order):
        raise GradientError("MXNet does not support vector norms of infinite order")
    elif order == 1:
        dx = gradient * np.sign(x)
    else:
        slope = np.power(np.abs(x) / whole, x.dtype.type(order - 1)) * np.sign(x) if order else np.zeros_like(x)
        dx = gradient * slope
    return np.asarray(dx).astype(x.dtype, copy=False)


def _sum_norm_gradient(x: Array, axes: tuple[int, ...], order: float, gradient: Array) -> Array:
    """Return the signs in the column (or row) with the largest (or smallest) sum of absolute values, times ``dy`` squared."""
    named = matrix_order(order)
    sums = np.abs(x).sum(axis=axes[0 if named in (1, -1) else 1], keepdims=True)
    chosen = sums.max(axis=axes, keepdims=True) if named > 0 else sums.min(axis=axes, keepdims=True)
    return np.asarray(gradient * gradient * np.sign(x) * (sums == chosen))


def _nuclear_gradient(x: Array, axes: tuple[int, ...], order: float, gradient: Array) -> Array:
    """Return the product of the vectors of all singular values, times ``dy``."""
    left, _, right = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), full_matrices=False)
    return np.asarray(gradient * np.moveaxis(left @ right, (-2, -1), axes))


def _spectral_gradient(x: Array, axes: tuple[int, ...], order: float, gradient: Array) -> Array:
    """Return the product of the vectors of the largest (or smallest) singular value, times ``dy`` squared.

    The values are weighted in the order of the input's axes, and MXNet reads the weights in the order of its matrices, which
    differs unless these are the last two axes.
    """
    left, values, right = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), full_matrices=False)
    column = np.moveaxis(values[..., None], (-2, -1), axes)
    chosen = column.max(axis=axes, keepdims=True) if order > 0 else column.min(axis=axes, keepdims=True)
    weights = np.where(column == chosen, gradient, 0).reshape(values.shape)
    return np.asarray(gradient * np.moveaxis((left * weights[..., None, :]) @ right, (-2, -1), axes))


def _diff_gradient(dy: Array, axis: int) -> Array:
    """Return the gradient of the array whose differences were computed: each element less the next one, 0 beyond the ends."""
    widths = [(1, 1) if i == axis % dy.ndim else (0, 0) for i in range(dy.ndim)]
    return -np.diff(np.pad(dy, widths), axis=axis)


def diff(entry: TapeEntry, dy: Array) -> Array | None:
    """Return the gradient through all ``n`` differences."""
    if not dy.size:
        return None
    for _ in range(entry.attrs["n"]):
        dy = _diff_gradient(dy, entry.attrs["axis"])
    return dy


def ediff1d(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the array, and of the arrays before and after the differences."""
    x, *ends = entry.inputs
    sizes = []
    arrays = list(ends)
    for key in ("to_begin", "to_end"):
        is_array = entry.attrs[f"{key}_arr_given"]
        sizes.append(arrays.pop(0).size if is_array else int(entry.attrs[f"{key}_scalar"] is not None))
    begin, inner, end = np.split(dy, [sizes[0], dy.size - sizes[1]])
    dx = _diff_gradient(inner, 0).reshape(x.shape) if x.size else np.zeros_like(x)
    outer = [part for key, part in (("to_begin", begin), ("to_end", end)) if entry.attrs[f"{key}_arr_given"]]
    return [dx, *(part.reshape(side.shape) for part, side in zip(outer, ends, strict=True))]


GRADIENTS = (
    Gradient("_npi_average", average),
    Gradient("_npi_norm", norm),
    Gradient("_npi_diff", diff, reads_inputs=False, reads_outputs=False),
    Gradient("_npi_ediff1d", ediff1d, reads_outputs=False),
    *no_gradient("MXNet's gradient of it is zero everywhere", "_npi_std", "_npi_var"),
    *no_gradient(
        "its result is a count, a comparison or a constant",
        *"_contrib_allclose _histogram _np_all _np_any _npi_percentile".split(),
    ),
)
