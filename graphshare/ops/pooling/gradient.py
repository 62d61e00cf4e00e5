"""Gradients of pooling: to the cells of each window, one tap of the window at a time.

The maximum of a window belongs to its first cell, in the order of the axes, that has this value.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.pooling.kernel import axes_and_window
from graphshare.ops.windows import Window, tap_cells, tap_range, to_compute_dtype, window_of


def pooling(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return ``dy`` at the maximum of each window, shared among its cells, or weighted by powers."""
    return _data_gradient(entry.attrs, entry.inputs[0], entry.outputs[0], dy)


def _data_gradient(attrs: Attrs, x: Array, y: Array, dy: Array, *, to_all: bool = False) -> Array:
    """Return the gradient of data; with ``to_all`` every maximum of a window gets all of ``dy``."""
    axes, window = axes_and_window(attrs, x.shape)
    kind = attrs["pool_type"]
    data, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    if kind == "avg":
        gradient = _divide_by_cells(gradient, x.shape, axes, window, attrs.get("count_include_pad") is not False)
    if kind in ("avg", "sum") and attrs["global_pool"]:
        return np.broadcast_to(gradient, x.shape).astype(x.dtype, copy=False)
    dx = np.zeros(x.shape, data.dtype)
    free = np.ones(y.shape, bool) if kind == "max" and not to_all else None
    for cells, windows in _taps(x.shape, y.shape, axes, window):
        part = gradient[windows]
        if kind == "max":
            hit = data[cells] == y[windows]
            if free is not None:
                hit &= free[windows]
                free[windows] &= ~hit
            part = part * hit
        elif kind == "lp":
            part = part * _power_slope(data[cells], y[windows], attrs["p_value"])
        dx[cells] += part
    return dx.astype(x.dtype, copy=False)


def _power_slope(x: Array, y: Array, power: int) -> Array:
    """Return the slope ``(x / y)^(p - 1)`` of a root of a sum of powers; 0 where the sum is 0, unless p is 1."""
    if power == 1:
        return np.ones_like(x)
    with np.errstate(all="ignore"):
        slope = (x / y) ** (power - 1)
    return np.where(y == 0, x.dtype.type(0), slope)


def _taps(
    shape: tuple[int, ...], counts: tuple[int, ...], axes: range, window: Window
) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Return for each tap of the window the cells of the image under it, and the windows that have a cell there."""
    pairs = []
    for tap in product(*map(range, window.kernel)):
        cells, windows = [slice(None)] * len(shape), [slice(None)] * len(shape)
        for i, axis in enumerate(axes):
            first, last, under = tap_range(shape[axis], tap[i] - window.pad[i], window.stride[i], counts[axis])
            cells[axis], windows[axis] = (under, slice(first, last)) if first < last else (slice(0, 0), slice(0, 0))
        pairs.append((tuple(cells), tuple(windows)))
    return pairs


def _divide_by_cells(dy: Array, shape: tuple[int, ...], axes: range, window: Window, include_padding: bool) -> Array:
    """Return ``dy`` divided by the number of cells of each window."""
    for i, axis in enumerate(axes):
        count = tap_cells(shape[axis], window, i, dy.shape[axis], include_padding).astype(dy.dtype)
        dy = dy / count.reshape(-1, *(1,) * (dy.ndim - 1 - axis))
    return dy


def pooling_v1(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return the gradient like :func:`pooling`, but means are over all cells of a window, and padding may be the maximum.

    Where several cells are the maximum each gets all of ``dy``.
    """
    attrs, x, y = entry.attrs, entry.inputs[0], entry.outputs[0]
    if attrs["global_pool"] or attrs["pool_type"] == "sum":
        return _data_gradient(attrs, x, y, dy, to_all=True)
    window = window_of(attrs)
    if attrs["pool_type"] == "avg":
        return _data_gradient({**attrs, "pool_type": "sum"}, x, y, dy / dy.dtype.type(prod(window.kernel)))
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in window.pad)])
    dx = _data_gradient({**attrs, "pad": ()}, padded, y, dy, to_all=True)
    inner = tuple(slice(p, n - p) for p, n in zip((0, 0, *window.pad), dx.shape, strict=True))
    return dx[inner]


GRADIENTS = (
    Gradient("Pooling", pooling),
    Gradient("Pooling_v1", pooling_v1),
)
