"""``im2col`` and ``col2im`` for one to three spatial axes: windows as columns, and the sum of columns at their windows."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes
from graphshare.ops.limits import Limits, with_limits
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify
from graphshare.ops.windows import Window, output_size, window_of
from graphshare.text.format import format_count


def _tap_slices(window: Window, positions: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Return for each tap its cells of the padded image, one for each position."""
    return [
        (
            slice(None),
            slice(None),
            *(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, s, n in zip(tap, window.dilate, window.stride, positions, strict=True)
            ),
        )
        for tap in product(*map(range, window.kernel))
    ]


def _positions(window: Window, size: tuple[Dim, ...]) -> list[Dim]:
    return [output_size(n, e, s, p) for n, e, s, p in zip(size, window.extent, window.stride, window.pad, strict=True)]


def im2col(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the cells of all windows (N, C * taps, positions)."""
    window = window_of(attrs)
    positions = tuple(n or 0 for n in _positions(window, x.shape[2:]))
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in window.pad)))
    cells = np.stack([padded[part] for part in _tap_slices(window, positions)], axis=2)
    return cells.reshape(x.shape[0], -1, prod(positions))


def col2im(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the image (N, C, spatial) of size ``output_size``: each cell is the sum over the windows that contain it."""
    window, size = _read_window(attrs)
    positions = tuple(n or 0 for n in _positions(window, size))
    taps = prod(window.kernel)
    columns = x.reshape(x.shape[0], x.shape[1] // taps, taps, *positions)
    padded = np.zeros((*columns.shape[:2], *(n + 2 * p for n, p in zip(size, window.pad, strict=True))), x.dtype)
    for tap, part in enumerate(_tap_slices(window, positions)):
        padded[part] += columns[:, :, tap]
    inner = (slice(None), slice(None), *(slice(p, p + n) for n, p in zip(size, window.pad, strict=True)))
    return np.ascontiguousarray(padded[inner])


def _read_window(attrs: Attrs) -> tuple[Window, tuple[int, ...]]:
    window, size = window_of(attrs), tuple(attrs["output_size"])
    if len(size) != len(window.kernel):
        raise KernelError(
            f"output_size {size} has {format_count(len(size), 'number')}, but kernel {window.kernel} has {len(window.kernel)}"
        )
    return window, size


def _infer_im2col_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    window = window_of(attrs)
    batch, channels, *size = dims_of_rank(inputs[0], len(window.kernel) + 2, "data")
    positions = _positions(window, tuple(size))
    count = None if None in positions else prod(n for n in positions if n is not None)
    rows = None if channels is None else channels * prod(window.kernel)
    return inputs, [unify((batch, rows, count), outputs[0])]


def _infer_col2im_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    window, size = _read_window(attrs)
    positions = _positions(window, size)
    batch, rows, _ = dims_of_rank(inputs[0], 3, "data")
    if rows is not None and rows % prod(window.kernel):
        raise KernelError(f"the number of rows, {rows}, is not a multiple of the {format_count(prod(window.kernel), 'tap')}")
    channels = None if rows is None else rows // prod(window.kernel)
    count = prod(n for n in positions if n is not None)
    return [unify(inputs[0], (batch, rows, count))], [unify((batch, channels, *size), outputs[0])]


KERNELS = with_limits(
    Limits(elements=True, not_negative=("pad",)),
    Kernel("im2col", im2col, _infer_im2col_shapes, same_dtypes),
    Kernel("col2im", col2im, _infer_col2im_shapes, same_dtypes),
)
