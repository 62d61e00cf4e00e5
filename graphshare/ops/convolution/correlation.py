"""Cross-correlation of images (N, C, spatial axes) with filters, as matrix products.

The cells under all taps are copied side by side for one product ("im2col"): whole rows, whose
surplus columns are dropped when the result is copied. For few filters on many channels it is
cheaper to multiply the image in place by each tap and add the results. :mod:`depthwise` has one
filter per channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

from graphshare.ops.convolution.depthwise import depthwise
from graphshare.ops.convolution.grid import Empty, Epilogue, Grid, make_grid, split_phases
from graphshare.ops.kernel import Array, Attrs, Context
from graphshare.ops.windows import Window, is_channels_last, read_window, to_compute_dtype

_BLOCK = 1 << 22
"""Number of elements of windows copied at a time."""

_SPARSE = 2
"""Largest ratio of image row to result row for which whole rows are copied."""

_FEW = 2
"""Channels per filter from which products by tap are cheaper than copied windows."""

_SMALL = 256
"""Largest number of result cells computed together with other images or planes."""

_WIDE = 1024
"""Number of columns at which matrix products reach full speed."""


def correlate(
    x: Array,
    weight: Array,
    epilogue: Epilogue,
    window: Window,
    groups: int,
    empty: Empty = np.empty,
) -> Array:
    """Return the convolution (N, C, spatial) with ``epilogue`` applied, in the dtype of ``x``."""
    if max(window.extent) == 1 and not any(window.pad):
        return _pointwise(x, weight, epilogue, window.stride, groups, empty)
    lift = 3 - len(window.kernel)
    window = Window(
        (1,) * lift + window.kernel,
        (1,) * lift + window.stride,
        (1,) * lift + window.dilate,
        (0,) * lift + window.pad,
    )
    lifted = x.reshape(x.shape[:2] + (1,) * lift + x.shape[2:])
    grid = make_grid(lifted.shape[2:], window)
    filters = weight.shape[0]
    result = empty((len(x), filters, *grid.out), x.dtype)
    # Groups with several filters per channel are ordinary ones.
    is_depthwise = weight.shape[1] == 1 and filters == groups
    matrix = (
        np.ascontiguousarray(weight).reshape(filters, -1)
        if is_depthwise
        else _group_filters(weight, groups)
    )
    together = 1 if is_depthwise else _count_together(len(x), prod(grid.out))
    if lift and together > 1:
        _images_together(
            lifted[:, :, 0], matrix, window, result[:, :, 0], epilogue, together, empty
        )
        return result.reshape(len(x), filters, *grid.out[lift:])
    for number, image in enumerate(lifted):
        if is_depthwise:
            depthwise(image, matrix, grid, result[number], epilogue, number, empty)
        elif groups == 1 and _FEW * filters <= len(image) and not _is_sparse(grid):
            _by_shifted_sums(image, weight, grid, result[number], empty)
            epilogue.apply(number, result[number])
        else:
            _one_image(image, matrix, grid, result[number], epilogue, number, empty)
    return result.reshape(len(x), filters, *grid.out[lift:])


def _is_sparse(grid: Grid) -> bool:
    """Whether most columns are surplus, as for windows nearly as wide as the image."""
    return grid.pitch > _SPARSE * grid.out[2]


def _has_wide_windows(grid: Grid) -> bool:
    """Whether a window row has more taps than positions, as for text."""
    return _is_sparse(grid) and grid.window.dilate[2] == 1 and grid.window.kernel[2] > grid.out[2]


def _group_filters(weight: Array, groups: int) -> Array:
    """Return (groups, filters of a group, C of a group * taps)."""
    return np.ascontiguousarray(weight).reshape(groups, len(weight) // groups, -1)


def _count_together(count: int, cells: int) -> int:
    """Return how many planes with ``cells`` results share one product."""
    return max(1, min(count, _WIDE // max(1, cells))) if cells <= _SMALL else 1


def _pointwise(
    x: Array, weight: Array, epilogue: Epilogue, stride: tuple[int, ...], groups: int, empty: Empty
) -> Array:
    """One-cell windows need only a product over channels."""
    if max(stride) > 1:
        steps = (slice(None), slice(None), *(slice(None, None, s) for s in stride))
        picked = empty(x[steps].shape, x.dtype)
        picked[...] = x[steps]
        x = picked
    count, channels, *spatial = x.shape
    filters = weight.shape[0]
    size = prod(spatial)
    flat = np.ascontiguousarray(x).reshape(count, groups, channels // groups, size)
    matrix = _group_filters(weight, groups)
    out = empty((count, filters, size), x.dtype)
    # Products with few columns are slow: images share one.
    if groups == 1 and (together := _count_together(count, size)) > 1:
        _pointwise_together(flat[:, 0], matrix[0], out, epilogue, together, empty)
        return out.reshape(count, filters, *spatial)
    if groups == 1:
        np.matmul(matrix[0], flat[:, 0], out=out)
    elif channels == filters == groups:
        np.multiply(matrix.reshape(filters, 1), flat.reshape(count, channels, size), out=out)
    else:
        np.matmul(matrix, flat, out=out.reshape(count, groups, filters // groups, size))
    for number, image in enumerate(out):
        epilogue.apply(number, image)
    shaped: Array = out.reshape(count, filters, *spatial)
    return shaped


def _pointwise_together(
    images: Array, matrix: Array, out: Array, epilogue: Epilogue, together: int, empty: Empty
) -> None:
    """``images`` are (N, C, cells), ``matrix`` (filters, C), ``out`` (N, filters, cells)."""
    for first in range(0, len(images), together):
        block = images[first : first + together].swapaxes(0, 1)
        cells = empty(block.shape, block.dtype)
        cells[...] = block
        wide = empty((len(matrix), *block.shape[1:]), block.dtype)
        np.matmul(matrix, cells.reshape(len(cells), -1), out=wide.reshape(len(wide), -1))
        for i in range(block.shape[1]):
            epilogue.apply(first + i, out[first + i], wide[:, i])


def _images_together(
    images: Array,
    matrix: Array,
    window: Window,
    result: Array,
    epilogue: Epilogue,
    together: int,
    empty: Empty,
) -> None:
    """Correlate ``images`` (N, C, H, W) into ``result`` (N, filters, H, W) as planes of one image."""
    for first in range(0, len(images), together):
        planes = images[first : first + together].swapaxes(0, 1)
        grid = make_grid(planes.shape[1:], window)
        for plane, top, rows in _by_columns(planes, matrix, grid, empty):
            # Parts of an image are collected first: an epilogue needs a complete one.
            whole = rows.shape[2] == result.shape[2]
            for i in range(rows.shape[1]):
                number = first + plane + i
                if not whole:
                    result[number, :, top : top + rows.shape[2]] = rows[:, i]
                if whole or top + rows.shape[2] == result.shape[2]:
                    epilogue.apply(number, result[number], rows[:, i] if whole else None)


def _one_image(
    image: Array,
    matrix: Array,
    grid: Grid,
    result: Array,
    epilogue: Epilogue,
    number: int,
    empty: Empty,
) -> None:
    """``image`` is (C, D, H, W)."""
    for plane, first, rows in _by_columns(image, matrix, grid, empty):
        if rows.shape == result.shape:
            epilogue.apply(number, result, rows)
            return
        result[:, plane : plane + rows.shape[1], first : first + rows.shape[2]] = rows
    epilogue.apply(number, result)


def _by_columns(
    image: Array, matrix: Array, grid: Grid, empty: Empty
) -> Iterator[tuple[int, int, Array]]:
    """Yield parts of the product with ``matrix`` (groups, filters, C of a group * taps).

    A part is its first plane and row, and cells (filters, planes, rows, W): rows of one plane, or
    whole planes.
    """
    is_sparse, by_window = _is_sparse(grid), _has_wide_windows(grid)
    phases = {} if by_window else split_phases(image, grid, empty)
    padded = np.pad(image, [(0, 0), *((p, p) for p in grid.window.pad)]) if by_window else image
    channels, groups = len(image), len(matrix)
    depth, height, width = grid.out
    # Surplus columns are copied too, unless they dominate.
    pitch = width if is_sparse else grid.pitch
    most = max(1, _BLOCK // (channels * len(grid.taps) * pitch))
    planes = min(max(1, most // max(1, height)), _count_together(depth, height * width))
    step = min(height, most)
    for plane, first in product(range(0, depth, planes), range(0, height, step)):
        shape = (min(planes, depth - plane), min(step, height - first), pitch)
        if by_window:
            windows = _copy_windows(padded, grid.window, (plane, first), shape, groups, empty)
        else:
            columns = empty((channels, len(grid.taps), *shape), image.dtype)
            for t, (phase, deeper, offset) in enumerate(grid.taps):
                columns[:, t] = _cells(
                    phases[phase], plane + deeper, first * grid.pitch + offset, shape, grid.pitch
                )
            windows = columns.reshape(groups, -1, prod(shape))
        wide = np.matmul(
            matrix, windows, out=empty((groups, matrix.shape[1], prod(shape)), image.dtype)
        )
        yield plane, first, wide.reshape(-1, *shape)[..., :width]


def _copy_windows(
    padded: Array,
    window: Window,
    begin: tuple[int, int],
    shape: tuple[int, int, int],
    groups: int,
    empty: Empty,
) -> Array:
    """Return (groups, C of a group * taps, positions) from plane and row ``begin``."""
    channel_stride, *strides = padded.strides
    steps = [stride * step for stride, step in zip(strides, window.stride, strict=True)]
    reach = [stride * step for stride, step in zip(strides, window.dilate, strict=True)]
    share = len(padded) // groups
    start = sum(n * step for n, step in zip(begin, steps, strict=False))
    cells: Array = np.ndarray(
        (groups, *shape, share, *window.kernel),
        padded.dtype,
        padded,
        start,
        (share * channel_stride, *steps, channel_stride, *reach),
    )
    rows = empty(cells.shape, padded.dtype)
    rows[...] = cells
    windows: Array = rows.reshape(groups, prod(shape), -1).swapaxes(1, 2)
    return windows


def _cells(phase: Array, plane: int, start: int, shape: tuple[int, int, int], pitch: int) -> Array:
    """Return ``shape`` cells per channel from ``start``, a view of rows that may overlap."""
    channel_stride, plane_stride, item = phase.strides
    strides = (channel_stride, plane_stride, pitch * item, item)
    cells: Array = np.ndarray(
        (len(phase), *shape), phase.dtype, phase, plane * plane_stride + start * item, strides
    )
    return cells


def _by_shifted_sums(image: Array, weight: Array, grid: Grid, result: Array, empty: Empty) -> None:
    """Correlate with ``weight`` (filters, C, taps): one product, then shifted sums."""
    phases = split_phases(image, grid, empty)
    filters, channels = weight.shape[:2]
    depth, height, width = grid.out
    matrices = np.ascontiguousarray(weight.reshape(filters, channels, -1).transpose(2, 0, 1))
    taps_by_plane: dict[tuple[tuple[int, int, int], int], list[int]] = {}
    for t, (phase, deeper, _) in enumerate(grid.taps):
        taps_by_plane.setdefault((phase, deeper), []).append(t)
    step = max(1, min(height, _BLOCK // (len(matrices) * filters * grid.pitch)))
    for plane, first in product(range(depth), range(0, height, step)):
        count = min(step, height - first)
        begin, span = first * grid.pitch, count * grid.pitch
        total = empty((filters, span), image.dtype)
        total.fill(0)
        for (phase, deeper), taps in taps_by_plane.items():
            offsets = [grid.taps[t][2] for t in taps]
            cells = phases[phase][
                :, plane + deeper, begin + min(offsets) : begin + max(offsets) + span
            ]
            chosen = matrices if len(taps) == len(matrices) else matrices[taps]
            products = empty((len(taps) * filters, cells.shape[1]), image.dtype)
            np.matmul(chosen.reshape(-1, channels), cells, out=products)
            for offset, part in zip(offsets, products.reshape(len(taps), filters, -1), strict=True):
                total += part[:, offset - min(offsets) :][:, :span]
        result[:, plane, first : first + count] = total.reshape(filters, count, grid.pitch)[
            :, :, :width
        ]


def convolution(
    context: Context, attrs: Attrs, x: Array, weight: Array, bias: Array | None = None
) -> Array:
    """Correlate ``x`` (N, C, spatial) with ``weight`` (num_filter, C / num_group, kernel)."""
    last = is_channels_last(attrs["layout"])
    x, weight, dtype = to_compute_dtype(x), to_compute_dtype(weight), x.dtype
    if last:
        x, weight = np.moveaxis(x, -1, 1), np.moveaxis(weight, -1, 1)
    epilogue = Epilogue(term=None if bias is None else bias.astype(x.dtype, copy=False))
    out = correlate(x, weight, epilogue, read_window(attrs), attrs["num_group"], context.empty)
    if last:
        out = np.moveaxis(out, 1, -1)
    return np.ascontiguousarray(out, dtype=dtype)
