"""Positions of the cells under each tap of a window.

An image is first copied into rows that are padded on one side only: the padding of the next row follows the end of a row, so
the cells under a tap over all positions are contiguous. For a stride, the image is split into its phases first. There are three
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

    ``size`` and ``out`` are the spatial axes of image and result; ``pitch`` is the length of a row and ``rows`` the number of
    rows of a phase of the padded image, ``taps`` the phase of the stride, the plane and the first cell of each tap.
    """

    size: tuple[int, ...]
    out: tuple[int, ...]
    window: Window
    pitch: int
    rows: int
    planes: int
    taps: tuple[tuple[tuple[int, int, int], int, int], ...]


@lru_cache(256)
def grid_of(size: tuple[int, ...], window: Window) -> Grid:
    """Return the grid for images of this size (D, H, W)."""
    kernel, stride, dilate, pad = window
    out = tuple((n + 2 * p - e) // s + 1 for n, p, e, s in zip(size, pad, window.extent, stride, strict=True))
    reach = tuple((e - 1) // s for e, s in zip(window.extent, stride, strict=True))
    cells = tuple(-(-(n + p) // s) for n, p, s in zip(size, pad, stride, strict=True))
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


def phases_of(image: Array, grid: Grid, empty: Empty = np.empty) -> dict[tuple[int, int, int], Array]:
    """Return the padded image (C, planes, rows * pitch and a margin for the last taps), split by phase of the stride."""
    _, stride, _, pad = grid.window
    channels, *size = image.shape
    span = grid.rows * grid.pitch
    margin = grid.window.extent[2]
    if not any(pad) and max(stride) == 1 and grid.window.extent[2] == 1 and image.flags.c_contiguous:
        return {(0, 0, 0): image.reshape(channels, size[0], -1)}
    phases = {}
    for phase in {phase for phase, _, _ in grid.taps}:
        flat = empty((channels, grid.planes, span + margin), image.dtype)
        flat.fill(0)
        rows = flat[:, :, :span].reshape(channels, grid.planes, grid.rows, grid.pitch)
        source, goal = [slice(None)], [slice(None)]
        for f, s, p, n, room in zip(phase, stride, pad, size, rows.shape[1:], strict=True):
            first = -(-(p - f) // s) if p > f else 0  # the first cell of this phase that lies in the image
            begin = first * s + f - p
            count = max(0, min(room - first, -(-(n - begin) // s)))
            source.append(slice(begin, begin + (count - 1) * s + 1 if count else begin, s))
            goal.append(slice(first, first + count))
        rows[tuple(goal)] = image[tuple(source)]
        phases[phase] = flat
    return phases
