"""``im2col`` and ``col2im`` in ONNX: cells that are gathered axis by axis, exact for every number."""

from __future__ import annotations

from math import prod

import numpy as np

from graphshare.ops.kernel import Array
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.windows import Window, window_of


def translate_im2col(t: Translation) -> str:
    """Emit a ``Gather`` for each axis, which makes two of it (tap, position), and sort the axes of the taps to the front."""
    x, window = t.inputs[0], window_of(t.attrs)
    rank = len(window.kernel)
    front = (0, 0, *window.pad)
    data = t.pad(x, front, front, 0, x.dtype)
    for i, places in enumerate(_places(window, x.shape[2:])):
        data = t.emit("Gather", data, t.constant(places, "int64"), axis=2 + 2 * i)
    taps, positions = range(2, 2 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    return t.reshape(t.transpose(data, (0, 1, *taps, *positions)), t.outputs[0].shape)


def translate_col2im(t: Translation) -> str:
    """Emit for each axis a ``Gather`` of the taps that meet at each cell, of which a missing one is 0, and their sum."""
    x, window, size = t.inputs[0], window_of(t.attrs), tuple(t.attrs["output_size"])
    rank, places = len(window.kernel), _places(window, size)
    channels = x.shape[1] // prod(window.kernel)
    wide = "float32" if x.dtype == "float16" else x.dtype
    data = t.reshape(t.cast(x, wide), (x.shape[0], channels, *window.kernel, *(p.shape[1] for p in places)))
    pairs = [axis for i in range(rank) for axis in (2 + i, 2 + rank + i)]
    counts = [p.size for p in places]
    data = t.reshape(t.transpose(data, (0, 1, *pairs)), (x.shape[0], channels, *counts))
    for i, axis in enumerate(range(2, 2 + rank)):
        end = [0] * (2 + rank)
        end[axis] = 1
        data = t.pad(data, (0,) * (2 + rank), end, 0, wide)
        meeting = _meeting(places[i].reshape(-1) - window.pad[i], size[i])
        data = t.reduce("ReduceSum", t.emit("Gather", data, t.constant(meeting, "int64"), axis=axis), [axis])
    return t.cast(data, x.dtype, of=wide)


def _places(window: Window, sizes: tuple[int, ...]) -> list[Array]:
    """Return for each axis the cell of the padded image under each tap at each position: (taps, positions)."""
    return [
        np.arange(k)[:, None] * d + np.arange((n + 2 * p - e) // s + 1) * s
        for n, k, s, d, p, e in zip(sizes, *window, window.extent, strict=True)
    ]


def _meeting(cells: Array, size: int) -> Array:
    """Return the indices of ``cells`` that name each cell of an axis (most, size), filled up with the index behind the last."""
    at = [np.flatnonzero(cells == cell) for cell in range(size)]
    table = np.full((max(1, *map(len, at)), size), len(cells))
    for cell, indices in enumerate(at):
        table[: len(indices), cell] = indices
    return table


TRANSLATIONS = (Translator("im2col", translate_im2col), Translator("col2im", translate_col2im))
