"""Gradients of convolutions, as matrix products over copied windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from graphshare.ops.convolution.correlation import correlate
from graphshare.ops.convolution.grid import Epilogue
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.limits import require
from graphshare.ops.windows import Window, is_channels_last, read_window, to_compute_dtype

_BLOCK = 1 << 21
"""Number of elements of windows copied at a time."""

_SMALL = 512
"""Images of up to this number of cells are processed several at once."""


Of = Callable[[Array, Array, Array], Array]
"""Computes one gradient from data, weight and output gradient, channels first."""


def layer_gradients(
    attrs: Attrs, entry: TapeEntry, dy: Array, of_data: Of, of_weight: Of
) -> Gradients:
    """Return gradients of data, weight and bias in any layout."""
    dtype, last = entry.inputs[0].dtype, is_channels_last(attrs["layout"])
    x, weight, dy = (to_compute_dtype(a) for a in (*entry.inputs[:2], dy))
    if last:
        x, weight, dy = (np.moveaxis(a, -1, 1) for a in (x, weight, dy))
    gradients: list[Array | None] = []
    for function, requested in ((of_data, entry.requested[0]), (of_weight, entry.requested[1])):
        if not requested:
            gradients.append(None)
            continue
        gradient = function(x, weight, dy)
        if last:
            gradient = np.moveaxis(gradient, 1, -1)
        gradients.append(np.ascontiguousarray(gradient, dtype=dtype))
    if len(entry.inputs) > 2:
        gradients.append(dy.sum(axis=(0, *range(2, dy.ndim))).astype(dtype, copy=False))
    return gradients


def convolution(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of data, weight and bias."""
    groups, window = entry.attrs["num_group"], read_window(entry.attrs)
    return layer_gradients(
        entry.attrs,
        entry,
        dy,
        lambda x, weight, dy: data_gradient(dy, weight, x.shape, window, groups),
        lambda x, weight, dy: weight_gradient(x, dy, weight.shape, window, groups),
    )


def data_gradient(
    dy: Array, weight: Array, shape: tuple[int, ...], window: Window, groups: int
) -> Array:
    """Return the gradient of data of ``shape`` (N, C, spatial): a transposed convolution.

    Without a stride, a convolution with flipped filters is faster for large images.
    """
    filters, share = weight.shape[:2]
    depthwise = share == 1 and filters == groups
    if groups == 1 and (max(window.stride) > 1 or prod(dy.shape[2:]) <= _SMALL):
        return _scatter_taps(dy, weight, shape, window)
    # Padding wider than the window would become negative, which convolution rejects.
    pad = tuple(e - 1 - p for e, p in zip(window.extent, window.pad, strict=True))
    fits_convolution = max(window.stride) == 1 and min(pad) >= 0
    if fits_convolution and (depthwise or share > 1 or groups == 1):
        split = weight.reshape(groups, filters // groups, share, *weight.shape[2:]).swapaxes(1, 2)
        flipped = np.flip(
            split.reshape(groups * share, filters // groups, *weight.shape[2:]),
            tuple(range(2, weight.ndim)),
        )
        flipped = np.ascontiguousarray(flipped)
        return correlate(
            np.ascontiguousarray(dy), flipped, Epilogue(), window._replace(pad=pad), groups
        )
    # A stride may leave cells at the end that no window reached: their gradient is 0.
    sizes = zip(shape[2:], window.pad, dy.shape[2:], window.stride, window.extent, strict=True)
    rest = tuple(n + 2 * p - ((o - 1) * s + e) for n, p, o, s, e in sizes)
    return transpose_convolve(dy, weight, window, rest, groups)


def _scatter_taps(dy: Array, weight: Array, shape: tuple[int, ...], window: Window) -> Array:
    """Add the products of ``dy`` and all taps at their cells."""
    count, filters, *out = dy.shape
    channels, cells = shape[1], prod(out)
    matrix = weight.reshape(filters, -1).T
    taps = tap_slices(window, out)
    canvas = np.zeros(
        (count, channels, *(n + 2 * p for n, p in zip(shape[2:], window.pad, strict=True))),
        dy.dtype,
    )
    for part in _portions(count, channels * len(taps) * cells):
        rows = np.ascontiguousarray(dy[part].swapaxes(0, 1)).reshape(filters, -1)
        tapped = np.matmul(matrix, rows).reshape(channels, len(taps), -1, *out).swapaxes(0, 2)
        for t, under in enumerate(taps):
            canvas[part][under] += tapped[:, t]
    inner = tuple(slice(p, p + n) for p, n in zip((0, 0, *window.pad), shape, strict=True))
    return canvas[inner]


Index = tuple[Any, ...]


def transpose_convolve(
    x: Array, weight: Array, window: Window, extra: tuple[int, ...], groups: int
) -> Array:
    """Return the transposed convolution (N, C, spatial), with ``extra`` cells at the ends."""
    count, channels, *size = x.shape
    kernel, stride, dilate, pad = window
    share = weight.shape[1]
    if channels == groups and share == 1 and max(dilate) == 1:
        return _transpose_depthwise(x, weight, window, extra)
    matrix = weight.reshape(groups, channels // groups, -1).swapaxes(1, 2)
    whole = [
        (n - 1) * s + e + a for n, s, e, a in zip(size, stride, window.extent, extra, strict=True)
    ]
    inner = (slice(None), *(slice(p, n - p) for p, n in zip(pad, whole, strict=True)))
    result = np.empty(
        (count, groups * share, *(n - 2 * p for n, p in zip(whole, pad, strict=True))), x.dtype
    )
    for image, target in zip(x, result, strict=True):
        products = np.matmul(matrix, image.reshape(groups, channels // groups, -1)).reshape(
            groups * share, -1, *size
        )
        canvas = np.zeros((groups * share, *whole), x.dtype)
        for t, tap in enumerate(product(*map(range, kernel))):
            corner = tuple(k * d for k, d in zip(tap, dilate, strict=True))
            cells = (
                slice(a, a + (n - 1) * s + 1, s)
                for a, n, s in zip(corner, size, stride, strict=True)
            )
            index = (slice(None), *cells)
            canvas[index] += products[:, t]
        target[...] = canvas[inner]
    return result


def _transpose_depthwise(x: Array, weight: Array, window: Window, extra: tuple[int, ...]) -> Array:
    """Output cells ``stride`` apart see the same taps: each phase is summed, then interleaved."""
    kernel, stride, _, pad = window
    size, term = x.shape[2:], np.empty_like(x)
    whole = [(n - 1) * s + k + a for n, s, k, a in zip(size, stride, kernel, extra, strict=True)]
    canvas: Array = np.zeros((*x.shape[:2], *whole), x.dtype)
    by_tap = weight.reshape(len(weight), -1, *(1,) * len(kernel))
    for phase in product(*(range(min(s, k)) for s, k in zip(stride, kernel, strict=True))):
        counts = [-(-(k - r) // s) for r, s, k in zip(phase, stride, kernel, strict=True)]
        total: Array = np.zeros(
            (*x.shape[:2], *(n + c - 1 for n, c in zip(size, counts, strict=True))), x.dtype
        )
        for steps in product(*map(range, counts)):
            tap = [r + s * m for r, s, m in zip(phase, stride, steps, strict=True)]
            np.multiply(x, by_tap[:, np.ravel_multi_index(tap, kernel)], out=term)
            cells: Index = (..., *(slice(m, m + n) for m, n in zip(steps, size, strict=True)))
            total[cells] += term
        ends = zip(phase, total.shape[2:], stride, strict=True)
        places: Index = (..., *(slice(r, r + (n - 1) * s + 1, s) for r, n, s in ends))
        canvas[places] = total
    inner: Index = (..., *(slice(p, n - p) for p, n in zip(pad, whole, strict=True)))
    return canvas[inner]


def weight_gradient(
    x: Array, dy: Array, shape: tuple[int, ...], window: Window, groups: int
) -> Array:
    """Return the gradient of filters of ``shape``: per tap, ``dy`` times its cells."""
    channels, (filters, share) = x.shape[1], shape[:2]
    if any(window.pad):
        require(
            min(window.pad) >= 0, "the gradient of the weight is not supported for negative padding"
        )
        x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in window.pad)))
    out = dy.shape[2:]
    taps = tap_slices(window, out)
    if len(taps) == 1 and groups == 1:
        return _pointwise_weight_gradient(x[taps[0]], dy, shape)
    total = np.zeros((groups, filters // groups, share * len(taps)), x.dtype)
    for part in _portions(len(x), channels * len(taps) * prod(out)):
        images = x[part].swapaxes(0, 1)
        columns = np.empty((channels, len(taps), images.shape[1], *out), x.dtype)
        for t, under in enumerate(taps):
            columns[:, t] = images[under]
        rows = np.ascontiguousarray(dy[part].swapaxes(0, 1)).reshape(groups, filters // groups, -1)
        total += np.matmul(rows, columns.reshape(groups, share * len(taps), -1).swapaxes(1, 2))
    return total.reshape(shape)


def _pointwise_weight_gradient(x: Array, dy: Array, shape: tuple[int, ...]) -> Array:
    count, channels = x.shape[:2]
    products = np.matmul(
        dy.reshape(count, shape[0], -1), x.reshape(count, channels, -1).swapaxes(1, 2)
    )
    total: Array = products.sum(axis=0)
    return total.reshape(shape)


def tap_slices(window: Window, out: Sequence[int]) -> list[tuple[slice, ...]]:
    """Return each tap's cells of the padded images at all positions."""
    cells = []
    for tap in product(*map(range, window.kernel)):
        first = (t * d for t, d in zip(tap, window.dilate, strict=True))
        under = (
            slice(a, a + (n - 1) * s + 1, s)
            for a, n, s in zip(first, out, window.stride, strict=True)
        )
        cells.append((slice(None), slice(None), *under))
    return cells


def _portions(count: int, each: int) -> Iterator[slice]:
    """Divide images so that copied windows (``each`` per image) fit ``_BLOCK``."""
    step = max(1, _BLOCK // max(1, each))
    return (slice(first, first + step) for first in range(0, count, step))


GRADIENTS = (
    Gradient("Convolution", convolution, reads_outputs=False),
    Gradient("Convolution_v1", convolution, reads_outputs=False),
)
