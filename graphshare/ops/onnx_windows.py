"""Windows in ONNX from gathered cells: exact in every dtype, unlike Conv and pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.kernel import Array
from graphshare.ops.translation import Translation
from graphshare.ops.windows import Window


def place_taps(window: Window, counts: Sequence[int]) -> list[Array]:
    """Return per axis the padded image's cell under each tap and position: (taps, positions)."""
    return [
        np.arange(k)[:, None] * d + np.arange(count) * s
        for k, s, d, count in zip(window.kernel, window.stride, window.dilate, counts, strict=True)
    ]


def gather_columns(t: Translation, x: str, places: Sequence[Array]) -> str:
    """Return cells of (N, C, spatial): (N, C, taps per axis, positions per axis)."""
    rank = len(places)
    # Each Gather puts taps before positions, so the next axis is two further.
    for i, cells in enumerate(places):
        x = t.emit("Gather", x, t.constant(cells, "int64"), axis=2 + 2 * i)
    return t.transpose(x, (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)))


def sum_windows(t: Translation, x: str, places: Sequence[Array]) -> str:
    """Sum cells of (N, C, spatial) under taps: (N, C, positions per axis)."""
    for i, cells in enumerate(places):
        x = t.reduce(
            "ReduceSum", t.emit("Gather", x, t.constant(cells, "int64"), axis=2 + i), [2 + i]
        )
    return x


def fold_columns(
    t: Translation,
    x: str,
    window: Window,
    shape: Sequence[int],
    counts: Sequence[int],
    size: Sequence[int],
    dtype: str,
) -> str:
    """Return an image of ``size`` whose cells are sums of the columns of windows that contain them.

    ``x`` has the elements of (taps per axis, positions per axis) after ``shape``, samples and
    channels. For each axis the columns that meet at a cell are gathered (0 for a missing one) and
    added.
    """
    rank = len(window.kernel)
    places = place_taps(window, counts)
    columns = t.reshape(x, (*shape, *window.kernel, *counts))
    pairs = [axis for i in range(rank) for axis in (2 + i, 2 + rank + i)]
    data = t.reshape(t.transpose(columns, (0, 1, *pairs)), (*shape, *(p.size for p in places)))
    for i, axis in enumerate(range(2, 2 + rank)):
        end = [0] * (2 + rank)
        end[axis] = 1
        # A cell under fewer windows gathers this zero for each missing column.
        data = t.pad(data, (0,) * (2 + rank), end, 0, dtype)
        meeting = _list_meeting(places[i].reshape(-1) - window.pad[i], size[i])
        data = t.reduce(
            "ReduceSum", t.emit("Gather", data, t.constant(meeting, "int64"), axis=axis), [axis]
        )
    return data


def _list_meeting(cells: Array, size: int) -> Array:
    """Return indices of ``cells`` at each cell (most, size), filled with the next index."""
    at = [np.flatnonzero(cells == cell) for cell in range(size)]
    table = np.full((max(1, *map(len, at)), size), len(cells))
    for cell, indices in enumerate(at):
        table[: len(indices), cell] = indices
    return table
