"""Cross-correlation with one filter per channel, as products with banded matrices.

A row of cells times a matrix with a filter row on its diagonals gives that row's sums over a strip
of positions. This is several times the necessary arithmetic, but faster than one pass per tap.
"""

from __future__ import annotations

from itertools import product
from math import isfinite, prod

import numpy as np

from graphshare.ops.convolution.grid import Empty, Epilogue, Grid, split_phases
from graphshare.ops.kernel import Array

_STRIP = 16
"""Positions of a row per product; wider bands are mostly zeros."""

_CELLS = 80
"""Largest number of cells of a row under a strip."""

_PART = 1 << 16
"""Number of image elements at a time, to stay in the cache."""


def depthwise(
    image: Array,
    weight: Array,
    grid: Grid,
    result: Array,
    epilogue: Epilogue,
    number: int,
    empty: Empty,
) -> None:
    """Correlate channels of image ``number`` (C, D, H, W) with ``weight`` (C, taps) into
    ``result``.

    A band's zeros turn infinity into NaN; such channels are recomputed tap by tap.
    """
    channels, width = len(image), grid.out[2]
    if (
        grid.window.kernel[2] == 1
        or _STRIP * grid.window.stride[2] + grid.window.extent[2] > _CELLS
    ):
        _by_channel_blocks(image, weight, grid, result)
        epilogue.apply(number, result)
        return
    bands = _Bands(weight, grid, empty)
    # Every row of taps passes over these channels: they should stay in the cache.
    step = min(channels, max(1, _PART // prod(bands.padded)))
    padded = empty((step, *bands.padded), image.dtype)
    padded.fill(0)
    inside = padded[bands.inside]
    shape = (step, *grid.out[:2], bands.strips, bands.strip)
    exact = bands.strips * bands.strip == width
    term = empty(shape, image.dtype)
    wide = None if exact else empty(shape, image.dtype)
    for first in range(0, channels, step):
        part = slice(first, min(channels, first + step))
        count = part.stop - first
        inside[:count] = image[part][bands.source]
        target = result[part]
        total = target.reshape(count, *shape[1:]) if wide is None else wide[:count]
        bands.sum_taps(padded[:count], part, total, term[:count])
        cells = target if wide is None else total.reshape(*target.shape[:3], -1)[..., :width]
        if not isfinite(total.sum()):
            correlate_by_tap(image[part], weight[part], grid, cells)
        epilogue.apply(number, target, cells, first)


def _by_channel_blocks(image: Array, weight: Array, grid: Grid, result: Array) -> None:
    """Correlate tap by tap, in blocks of channels that fit the cache."""
    step = max(1, _PART // (2 * grid.out[1] * grid.pitch))
    for first in range(0, len(image), step):
        part = slice(first, first + step)
        correlate_by_tap(image[part], weight[part], grid, result[part])


class _Bands:
    """Filters as banded matrices, and the image's position in its padding.

    A row of one strip needs no padding: its bands are cropped.
    """

    def __init__(self, weight: Array, grid: Grid, empty: Empty) -> None:
        kernel, stride, dilate, pad = grid.window
        self._grid, self._stride = grid, stride
        width = grid.out[2]
        self.strips = -(-width // _STRIP)
        # Equal strips leave fewer surplus positions than full ones and a rest.
        self.strip = -(-width // self.strips)
        positions = (*grid.out[:2], self.strips * self.strip)
        padded = tuple(
            (n - 1) * s + e for n, s, e in zip(positions, stride, grid.window.extent, strict=True)
        )
        counts = tuple(
            max(0, min(n, room - p)) for n, room, p in zip(grid.size, padded, pad, strict=True)
        )
        self.source = (slice(None), *(slice(0, n) for n in counts))
        self._rows = [
            (t * dilate[0], u * dilate[1]) for t, u in product(range(kernel[0]), range(kernel[1]))
        ]
        self._cells = (self.strip - 1) * stride[2] + grid.window.extent[2]
        self._matrices = self._band_matrix(weight, kernel[2], stride[2], dilate[2], empty)
        if self.strips == 1 and counts[2]:
            self._cells, padded, starts = counts[2], (*padded[:2], counts[2]), (*pad[:2], 0)
            self._matrices = self._matrices[:, :, :, pad[2] : pad[2] + counts[2]]
        else:
            starts = pad
        self.padded = padded
        self.inside = (slice(None), *(slice(p, p + n) for p, n in zip(starts, counts, strict=True)))

    def _band_matrix(
        self, weight: Array, taps: int, stride: int, dilate: int, empty: Empty
    ) -> Array:
        """Return (rows of taps, C, 1, cells, positions of a strip)."""
        channels, size = len(weight), weight.itemsize
        bands = empty((len(self._rows), channels, 1, self._cells, self.strip), weight.dtype)
        bands.fill(0)
        by_row = weight.reshape(channels, len(self._rows), taps).transpose(2, 1, 0)[..., None]
        for tap in range(taps):
            # A view of one diagonal: each step goes down by the stride and right by one.
            diagonal: Array = np.ndarray(
                (len(self._rows), channels, self.strip),
                weight.dtype,
                bands,
                tap * dilate * self.strip * size,
                (*bands.strides[:2], (stride * self.strip + 1) * size),
            )
            diagonal[...] = by_row[tap]
        return bands

    def sum_taps(self, padded: Array, channels: slice, total: Array, term: Array) -> None:
        """Write the sums over all taps to ``total`` (C, D, H, strips, strip); ``term`` is scratch."""
        (depth, height), size = self._grid.out[:2], padded.itemsize
        strides = (
            padded.strides[0],
            self.strip * self._stride[2] * size,
            padded.strides[2] * self._stride[1],
            size,
        )
        for plane in range(depth):
            for i, (deeper, lower) in enumerate(self._rows):
                start = (plane * self._stride[0] + deeper) * padded.strides[
                    1
                ] + lower * padded.strides[2]
                cells: Array = np.ndarray(
                    (len(padded), self.strips, height, self._cells),
                    padded.dtype,
                    padded,
                    start,
                    strides,
                )
                target = term if i else total
                np.matmul(
                    cells, self._matrices[i, channels], out=target[:, plane].transpose(0, 2, 1, 3)
                )
                if i:
                    total[:, plane] += term[:, plane]


def correlate_by_tap(image: Array, weight: Array, grid: Grid, result: Array) -> None:
    """Correlate like :func:`depthwise`, without epilogue, as sums of scaled copies."""
    depth, height, width = grid.out
    span = height * grid.pitch
    phases = split_phases(image, grid)
    total = np.empty((len(weight), span), image.dtype)
    term = np.empty_like(total)
    for plane in range(depth):
        for t, (phase, deeper, offset) in enumerate(grid.taps):
            cells = phases[phase][:, plane + deeper, offset : offset + span]
            np.multiply(cells, weight[:, t, None], out=term if t else total)
            if t:
                total += term
        result[:, plane] = total.reshape(-1, height, grid.pitch)[:, :, :width]
