"""Convolutions of 8-bit integers as sums of products in float32, which are exact up to 2**24.

The image is copied into its padding with channels last, as bytes; there a row of a window is contiguous. All windows are then
copied at once, and become float32 in the same pass. With a filter for each channel the windows are not copied. Other groups
are left to :mod:`graphshare.ops.convolution`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.convolution.grid import Empty
from graphshare.ops.kernel import Array
from graphshare.ops.windows import Window

EXACT = 1 << 24
"""The largest number up to which float32 holds all integers."""

_COLUMNS = 64
"""Number of columns of the weights that are in one part in any case: their sums are below 64 * 255 * 128."""

_BLOCK = 1 << 22
"""Number of elements of copied windows at a time."""


def exact_parts(matrix: Array, dtype: Any) -> list[slice]:
    """Return columns of the weights (filters, columns) in parts with exact sums, for data of ``dtype``.

    A sum of some of the products is largest where the data are at one end for positive weights, at the other for negative ones.
    """
    columns = matrix.shape[1]
    starts = range(0, columns, _COLUMNS)
    ends = np.iinfo(dtype)
    positive, negative = (
        np.add.reduceat(np.maximum(signed, 0), starts, axis=1, dtype=np.float64) for signed in (matrix, -matrix)
    )
    sums = np.concatenate([ends.max * positive - ends.min * negative, ends.max * negative - ends.min * positive])
    if sums.sum(axis=1).max(initial=0) <= EXACT:
        return [slice(0, columns)]
    cuts, total = [0], np.zeros(len(sums))
    for start, some in zip(starts, sums.T, strict=True):
        total += some
        if total.max() > EXACT:
            cuts.append(start)
            total = some.copy()
    return [slice(first, last) for first, last in pairwise([*cuts, columns])]


class _Layout(NamedTuple):
    """Windows of an image: by axis their ``counts``, the ``kernel`` and the size of the padded image, ``room``.

    ``taps`` are the taps of ``kernel``. The cells ``source`` of the image are the cells ``goal`` of the padded image.
    """

    counts: tuple[int, ...]
    kernel: tuple[int, ...]
    room: tuple[int, ...]
    taps: slice
    source: tuple[slice, ...]
    goal: tuple[slice, ...]


@lru_cache(256)
def _layout_of(size: tuple[int, ...], window: Window) -> _Layout:
    """Return where the windows of an image of this size lie.

    Taps that are in the padding at every position are left out, as far as the others remain in one run.
    """
    axes, taps, narrow = [], range(prod(window.kernel)), True
    for n, kernel, stride, dilate, pad, extent in zip(size, *window, window.extent, strict=True):
        count = (n + 2 * pad - extent) // stride + 1
        inside = [t for t in range(kernel) if any(0 <= i * stride + t * dilate - pad < n for i in range(count))]
        chosen = range(inside[0], inside[-1] + 1) if narrow and inside else range(kernel)
        if narrow:
            taps = taps[chosen.start * len(taps) // kernel : chosen.stop * len(taps) // kernel]
        narrow = narrow and len(chosen) == 1
        begin = chosen.start * dilate - pad  # the cell of the image at the first cell of the padded image
        room = (count - 1) * stride + (len(chosen) - 1) * dilate + 1
        first = min(n, max(0, begin))
        last = max(first, min(n, begin + room))
        axes.append((count, len(chosen), room, slice(first, last), slice(first - begin, last - begin)))
    counts, kernels, rooms, source, goal = zip(*axes, strict=True)
    return _Layout(counts, kernels, rooms, slice(taps.start, taps.stop), source, goal)


def sum_products(x: Array, weights: Array, parts: Sequence[slice], window: Window, empty: Empty) -> Array:
    """Return the convolution of integers (N, C, spatial) with ``weights`` (filters, taps, C), as (filters, N, spatial).

    The sums are float32, or float64 where they are those of several ``parts`` of the columns of the weights.
    """
    count, channels = x.shape[:2]
    dtype = weights.dtype if len(parts) == 1 else np.dtype(np.float64)
    if max(window.extent) == 1 and not any(window.pad):
        if max(window.stride) > 1:
            steps = (slice(None), slice(None), *(slice(None, None, step) for step in window.stride))
            x = x[steps]
        columns = empty((channels, count, *x.shape[2:]), weights.dtype)
        columns[...] = x.swapaxes(0, 1)
        sums = empty((len(weights), prod(columns.shape[1:])), dtype)
        _multiply(weights[:, 0], columns.reshape(channels, -1), parts, 0, sums)
        return sums.reshape(-1, *columns.shape[1:])
    layout = _layout_of(x.shape[2:], window)
    padded = _pad(x, layout, x.dtype, empty)
    first_column = layout.taps.start * channels
    matrix = weights[:, layout.taps].reshape(len(weights), -1)
    height, line = layout.counts[0], prod(layout.counts[1:])
    images = max(1, _BLOCK // max(1, height * line * matrix.shape[1]))
    rows = height if images > 1 else max(1, min(height, _BLOCK // (line * matrix.shape[1])))
    sums = empty((len(weights), count * height * line), dtype)
    for first, row in product(range(0, count, images), range(0, height, rows)):
        windows = _windows(padded, layout, window, slice(first, first + images), slice(row, row + rows))
        columns = empty((windows.size // matrix.shape[1], matrix.shape[1]), matrix.dtype)
        columns.reshape(windows.shape)[...] = windows
        begin = (first * height + row) * line
        _multiply(matrix, columns.T, parts, first_column, sums[:, begin : begin + len(columns)])
    return sums.reshape(-1, count, *layout.counts)


def sum_by_channel(x: Array, weights: Array, window: Window, empty: Empty) -> Array:
    """Return the convolution of integers (N, C, spatial) with a filter for each channel (taps, C), as (C, N, spatial)."""
    layout = _layout_of(x.shape[2:], window)
    windows = _windows(_pad(x, layout, weights.dtype, empty), layout, window, slice(0, len(x)), slice(0, layout.counts[0]))
    rank = len(layout.kernel)
    axes, taps = range(2 * rank + 2), weights[layout.taps].reshape(*layout.kernel, -1)
    sums = np.einsum(windows, [*axes], taps, [*axes[rank + 1 :]], [*axes[: rank + 1], axes[-1]])
    return np.moveaxis(sums, -1, 0)


def _pad(x: Array, layout: _Layout, dtype: Any, empty: Empty) -> Array:
    """Return the padded images with channels last: (N, room, C)."""
    padded = empty((len(x), *layout.room, x.shape[1]), dtype)
    padded.fill(0)
    goal, source = (slice(None), *layout.goal), (slice(None), slice(None), *layout.source)
    padded[goal] = np.moveaxis(x[source], 1, -1)
    return padded


def _windows(padded: Array, layout: _Layout, window: Window, images: slice, rows: slice) -> Array:
    """Return a view of the windows of some images at some positions of the first axis: (N, positions, taps, C)."""
    item, strides = padded.strides[0], padded.strides[1:]
    steps = [size * step for size, step in zip(strides, window.stride, strict=False)]
    reach = [size * step for size, step in zip(strides, window.dilate, strict=False)]
    counts = (len(range(len(padded))[images]), len(range(layout.counts[0])[rows]), *layout.counts[1:])
    start = images.start * item + rows.start * steps[0]
    shape = (*counts, *layout.kernel, padded.shape[-1])
    windows: Array = np.ndarray(shape, padded.dtype, padded, start, (item, *steps, *reach, strides[-1]))
    return windows


def _multiply(matrix: Array, columns: Array, parts: Sequence[slice], first: int, out: Array) -> None:
    """Write the product to ``out``, in float64 if there are several parts; ``first`` is the number of the first column."""
    if len(parts) == 1:
        np.matmul(matrix, columns, out=out)
        return
    out.fill(0)
    for part in parts:
        span = slice(max(0, part.start - first), max(0, part.stop - first))
        out += np.matmul(matrix[:, span], columns[span])
