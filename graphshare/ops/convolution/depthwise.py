"""Cross-correlation with a filter for each channel, as products with banded matrices.

The cells of a row times a matrix that holds the row of a filter on its diagonals are the sums of that row of taps over a
strip of positions. That is several times the arithmetic needed, but done at the speed of a matrix product, which beats one
pass over the image for each tap.
"""

from __future__ import annotations

from itertools import product
from math import isfinite, prod

import numpy as np

from graphshare.ops.convolution.epilogue import Epilogue
from graphshare.ops.convolution.grid import Empty, Grid, phases_of
from graphshare.ops.kernel import Array

_STRIP = 16
"""Positions of a row that are computed by one product; wider bands are mostly zeros."""


_CELLS = 80
"""Cells of a row that a strip may see."""


_PART = 1 << 16
"""How many numbers of the image are held in the cache at a time."""


def depthwise(image: Array, weight: Array, grid: Grid, result: Array, finish: Epilogue, number: int, empty: Empty) -> None:
    """Image ``number`` (C, D, H, W), each channel with its own taps of ``weight`` (C, taps), into ``result``.

    A product with a band of zeros makes NaN of infinity, so channels with such a result are computed again tap by tap.
    """
    channels, width = len(image), grid.out[2]
    if grid.window.kernel[2] == 1 or _STRIP * grid.window.stride[2] + grid.window.extent[2] > _CELLS:
        _in_parts(image, weight, grid, result)
        finish.apply(number, result)
        return
    bands = _Bands(weight, grid, empty)
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
        inside[:count] = image[part][bands.seen]
        goal = result[part]
        total = goal.reshape(count, *shape[1:]) if wide is None else wide[:count]
        bands.sums(padded[:count], part, total, term[:count])
        cells = goal if wide is None else total.reshape(*goal.shape[:3], -1)[..., :width]
        if not isfinite(total.sum()):
            by_passes(image[part], weight[part], grid, cells)
        finish.apply(number, goal, cells, first)


def _in_parts(image: Array, weight: Array, grid: Grid, result: Array) -> None:
    """Few channels at a time, so that they stay in the cache."""
    step = max(1, _PART // (2 * grid.out[1] * grid.pitch))
    for first in range(0, len(image), step):
        part = slice(first, first + step)
        by_passes(image[part], weight[part], grid, result[part])


class _Bands:
    """The filters as banded matrices, and where the image lies in its border.

    A row that is one strip needs no border on its sides: what the bands have there is left out.
    """

    def __init__(self, weight: Array, grid: Grid, empty: Empty) -> None:
        kernel, stride, dilate, pad = grid.window
        self._grid, self._stride = grid, stride
        width = grid.out[2]
        self.strips = -(-width // _STRIP)
        self.strip = -(-width // self.strips)
        counted = (*grid.out[:2], self.strips * self.strip)
        padded = tuple((n - 1) * s + e for n, s, e in zip(counted, stride, grid.window.extent, strict=True))
        counts = tuple(max(0, min(n, room - p)) for n, room, p in zip(grid.size, padded, pad, strict=True))
        self.seen = (slice(None), *(slice(0, n) for n in counts))
        self._rows = [(t * dilate[0], u * dilate[1]) for t, u in product(range(kernel[0]), range(kernel[1]))]
        self._cells = (self.strip - 1) * stride[2] + grid.window.extent[2]
        self._matrices = self._band_matrix(weight, kernel[2], stride[2], dilate[2], empty)
        if self.strips == 1 and counts[2]:
            self._cells, padded, borders = counts[2], (*padded[:2], counts[2]), (*pad[:2], 0)
            self._matrices = self._matrices[:, :, :, pad[2] : pad[2] + counts[2]]
        else:
            borders = pad
        self.padded = padded
        self.inside = (slice(None), *(slice(p, p + n) for p, n in zip(borders, counts, strict=True)))

    def _band_matrix(self, weight: Array, taps: int, stride: int, dilate: int, empty: Empty) -> Array:
        """(rows of taps, C, 1, cells, positions of a strip)."""
        channels, size = len(weight), weight.itemsize
        bands = empty((len(self._rows), channels, 1, self._cells, self.strip), weight.dtype)
        bands.fill(0)
        by_row = weight.reshape(channels, len(self._rows), taps).transpose(2, 1, 0)[..., None]
        for tap in range(taps):
            diagonal: Array = np.ndarray(
                (len(self._rows), channels, self.strip),
                weight.dtype,
                bands,
                tap * dilate * self.strip * size,
                (*bands.strides[:2], (stride * self.strip + 1) * size),
            )
            diagonal[...] = by_row[tap]
        return bands

    def sums(self, padded: Array, channels: slice, total: Array, term: Array) -> None:
        """The sums over all taps in ``total`` (C, D, H, strips, strip), with ``term`` as room, for the given channels."""
        (depth, height), size = self._grid.out[:2], padded.itemsize
        strides = (padded.strides[0], self.strip * self._stride[2] * size, padded.strides[2] * self._stride[1], size)
        for plane in range(depth):
            for i, (deeper, lower) in enumerate(self._rows):
                start = (plane * self._stride[0] + deeper) * padded.strides[1] + lower * padded.strides[2]
                cells: Array = np.ndarray((len(padded), self.strips, height, self._cells), padded.dtype, padded, start, strides)
                goal = term if i else total
                np.matmul(cells, self._matrices[i, channels], out=goal[:, plane].transpose(0, 2, 1, 3))
                if i:
                    total[:, plane] += term[:, plane]


def by_passes(image: Array, weight: Array, grid: Grid, result: Array) -> None:
    """As :func:`depthwise` without what follows, as sums of scaled copies: the reference form."""
    depth, height, width = grid.out
    span = height * grid.pitch
    phases = phases_of(image, grid)
    total = np.empty((len(weight), span), image.dtype)
    term = np.empty_like(total)
    for plane in range(depth):
        for t, (phase, deeper, offset) in enumerate(grid.taps):
            cells = phases[phase][:, plane + deeper, offset : offset + span]
            np.multiply(cells, weight[:, t, None], out=term if t else total)
            if t:
                total += term
        result[:, plane] = total.reshape(-1, height, grid.pitch)[:, :, :width]
