"""The cells under each tap of a window, and epilogues.

Rows are padded on one side only: the next row's padding follows each, so a tap's cells over all
positions are contiguous. For a stride, the image is first split into phases. There are three
spatial axes (D, H, W).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.kernel import Array
from graphshare.ops.windows import Window

Empty = Callable[[Sequence[int], Any], Array]


class Grid(NamedTuple):
    """The first cell under each tap.

    ``size`` and ``out`` are spatial axes of image and result, ``pitch`` the length of a row,
    ``rows`` the rows of a phase, ``taps`` each tap's phase, plane and first cell.
    """

    size: tuple[int, ...]
    out: tuple[int, ...]
    window: Window
    pitch: int
    rows: int
    planes: int
    taps: tuple[tuple[tuple[int, int, int], int, int], ...]


@lru_cache(256)
def make_grid(size: tuple[int, ...], window: Window) -> Grid:
    """Return the grid for images of ``size`` (D, H, W)."""
    kernel, stride, dilate, pad = window
    out = tuple(
        (n + 2 * p - e) // s + 1
        for n, p, e, s in zip(size, pad, window.extent, stride, strict=True)
    )
    reach = tuple((e - 1) // s for e, s in zip(window.extent, stride, strict=True))
    cells = tuple(-(-(n + p) // s) for n, p, s in zip(size, pad, stride, strict=True))
    # With much padding, windows outnumber a row's cells.
    pitch = max(cells[2], out[2])
    if stride[2] > 1:
        pitch = max(pitch, out[2] + reach[2])
    taps = []
    for tap in product(*map(range, kernel)):
        start = tuple(t * d for t, d in zip(tap, dilate, strict=True))
        plane, row, column = (a // s for a, s in zip(start, stride, strict=True))
        phase = (start[0] % stride[0], start[1] % stride[1], start[2] % stride[2])
        taps.append((phase, plane, row * pitch + column))
    return Grid(size, out, window, pitch, out[1] + reach[1], out[0] + reach[0], tuple(taps))


def split_phases(
    image: Array, grid: Grid, empty: Empty = np.empty
) -> dict[tuple[int, int, int], Array]:
    """Split the padded image into phases (C, planes, rows * pitch and a margin)."""
    _, stride, _, pad = grid.window
    channels, *size = image.shape
    span = grid.rows * grid.pitch
    margin = grid.window.extent[2]
    is_whole = not any(pad) and max(stride) == 1
    # Taps that stay in their row need no margin, so the image itself serves.
    if is_whole and margin == 1 and image.flags.c_contiguous:
        return {(0, 0, 0): image.reshape(channels, size[0], -1)}
    phases = {}
    for phase in {phase for phase, _, _ in grid.taps}:
        flat = empty((channels, grid.planes, span + margin), image.dtype)
        flat.fill(0)
        rows = flat[:, :, :span].reshape(channels, grid.planes, grid.rows, grid.pitch)
        source, goal = [slice(None)], [slice(None)]
        for f, s, p, n, room in zip(phase, stride, pad, size, rows.shape[1:], strict=True):
            first = -(-(p - f) // s) if p > f else 0  # this phase's first cell inside the image
            begin = first * s + f - p
            count = max(0, min(room - first, -(-(n - begin) // s)))
            source.append(slice(begin, begin + (count - 1) * s + 1 if count else begin, s))
            goal.append(slice(first, first + count))
        rows[tuple(goal)] = image[tuple(source)]
        phases[phase] = flat
    return phases


_PART = 1 << 17
"""Number of elements processed at a time."""


class Epilogue(NamedTuple):
    """``result * factor + term + addend``, clipped to ``low`` and ``high``; None skips an
    operation.

    ``factor`` and ``term`` have one number per channel, ``addend`` the result's shape (N, C,
    spatial).
    """

    factor: Array | None = None
    term: Array | None = None
    addend: Array | None = None
    low: float | None = None
    high: float | None = None

    def apply(
        self, number: int, result: Array, source: Array | None = None, channel: int = 0
    ) -> None:
        """Write the epilogue of ``source`` (default: ``result``) for sample ``number``.

        Both have shape (C, ..., cells); their first channel is number ``channel``.
        """
        if source is None:
            source = result
        channels = slice(channel, channel + len(result))
        addend = (
            None if self.addend is None else self.addend[number, channels].reshape(result.shape)
        )
        step = max(1, _PART * len(result) // max(1, result.size))
        tail = (-1, *(1,) * (result.ndim - 1))
        factor = None if self.factor is None else self.factor[channels].reshape(tail)
        term = None if self.term is None else self.term[channels].reshape(tail)
        ends = None if self.low is None and self.high is None else self._ends(result.dtype)
        for first in range(0, len(result), step):
            part = slice(first, first + step)
            cells, values = result[part], source[part]
            if factor is not None:
                values = np.multiply(values, factor[part], out=cells)
            if term is not None:
                values = np.add(values, term[part], out=cells)
            if addend is not None:
                values = np.add(values, addend[part], out=cells)
            if ends is not None:
                # One pass; faster than maximum even without an upper bound
                values = np.clip(values, *ends, out=cells)
            if values is not cells and source is not result:
                cells[...] = values

    def _ends(self, dtype: Any) -> tuple[Any, Any]:
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        return dtype.type(low), dtype.type(high)
