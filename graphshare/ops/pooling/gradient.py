"""Gradients of pooling: to the cells of each window, a step of the window at a time.

A window's greatest value is that of its first cell, in the order of the axes, which holds it.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.windows import Window, is_channels_last, tap_cells, tap_range, to_compute_dtype, window_of


def pooling(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """To the greatest cell, to all alike, or by powers."""
    return _spread(entry.attrs, entry.inputs[0], entry.outputs[0], dy)


def _spread(attrs: Attrs, x: Array, y: Array, dy: Array, *, to_all: bool = False) -> Array:
    """The gradient of data; with ``to_all`` all the greatest cells of a window get all of it."""
    first = 1 if is_channels_last(attrs.get("layout")) else 2
    axes = range(first, first + x.ndim - 2)
    if attrs["global_pool"]:
        window = Window(tuple(x.shape[a] for a in axes), (1,) * len(axes), (1,) * len(axes), (0,) * len(axes))
    else:
        window = window_of(attrs)
    kind = attrs["pool_type"]
    data, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    if kind == "avg":
        gradient = _share_out(gradient, x.shape, axes, window, attrs.get("count_include_pad") is not False)
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
    """Of the root of the sum of powers: ``(x / y)^(p - 1)``; 0 where the sum is 0, unless it is a plain one."""
    if power == 1:
        return np.ones_like(x)
    with np.errstate(all="ignore"):
        slope = (x / y) ** (power - 1)
    return np.where(y == 0, x.dtype.type(0), slope)


def _taps(
    shape: tuple[int, ...], counts: tuple[int, ...], axes: range, window: Window
) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """For each step within the window the cells of the image under it, and the windows that have one there."""
    found = []
    for tap in product(*map(range, window.kernel)):
        cells, windows = [slice(None)] * len(shape), [slice(None)] * len(shape)
        for i, axis in enumerate(axes):
            first, last, under = tap_range(shape[axis], tap[i] - window.pad[i], window.stride[i], counts[axis])
            cells[axis], windows[axis] = (under, slice(first, last)) if first < last else (slice(0, 0), slice(0, 0))
        found.append((tuple(cells), tuple(windows)))
    return found


def _share_out(dy: Array, shape: tuple[int, ...], axes: range, window: Window, with_border: bool) -> Array:
    """The gradient divided by the cells of each window."""
    for i, axis in enumerate(axes):
        count = tap_cells(shape[axis], window, i, dy.shape[axis], with_border).astype(dy.dtype)
        dy = dy / count.reshape(-1, *(1,) * (dy.ndim - 1 - axis))
    return dy


def pooling_v1(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """As :func:`pooling`, but a mean is over all cells of a window, and the border may hold the greatest.

    Where several cells are the greatest each gets all of it.
    """
    attrs, x, y = entry.attrs, entry.inputs[0], entry.outputs[0]
    if attrs["global_pool"] or attrs["pool_type"] == "sum":
        return _spread(attrs, x, y, dy, to_all=True)
    window = window_of(attrs)
    if attrs["pool_type"] == "avg":
        return _spread({**attrs, "pool_type": "sum"}, x, y, dy / dy.dtype.type(prod(window.kernel)))
    bordered = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in window.pad)])
    dx = _spread({**attrs, "pad": ()}, bordered, y, dy, to_all=True)
    inner = tuple(slice(p, n - p) for p, n in zip((0, 0, *window.pad), dx.shape, strict=True))
    return dx[inner]


GRADIENTS = (
    Gradient("Pooling", pooling),
    Gradient("Pooling_v1", pooling_v1),
)
