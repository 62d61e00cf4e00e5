"""Cross-correlation of images (N, C, spatial axes) with filters, as matrix products.

In general the cells under each tap are laid side by side for one product ("im2col"). Whole rows are, so the product has a few
columns too many in each, which are left out when the result is copied. For few filters on many channels it is cheaper to add
what each tap gives of the image as it lies; a filter for each channel is in :mod:`depthwise`. Everything is brought to three
spatial axes.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from graphshare.ops.convolution.depthwise import depthwise
from graphshare.ops.convolution.epilogue import Epilogue
from graphshare.ops.convolution.grid import Empty, Grid, grid_of, phases_of
from graphshare.ops.kernel import Array
from graphshare.ops.windows import Window

_BLOCK = 1 << 22
"""How many numbers of laid out windows are held at a time."""


_SPARSE = 2
"""How many times as long as the row of a result a row of the image may be, for its cells to be laid out by the row."""


_FEW = 2
"""How many channels to a filter make adding what each tap gives cheaper than windows laid side by side."""


def correlate(x: Array, weight: Array, finish: Epilogue, window: Window, groups: int, empty: Empty = np.empty) -> Array:
    """The convolution itself, channels second, in the type of ``x``; what ``finish`` says is done to its result."""
    if max(window.extent) == 1 and not any(window.pad):
        return _pointwise(x, weight, finish, window.stride, groups, empty)
    lift = 3 - len(window.kernel)
    window = Window(
        (1,) * lift + window.kernel, (1,) * lift + window.stride, (1,) * lift + window.dilate, (0,) * lift + window.pad
    )
    lifted = x.reshape(x.shape[:2] + (1,) * lift + x.shape[2:])
    grid = grid_of(lifted.shape[2:], window)
    filters = weight.shape[0]
    result = empty((len(x), filters, *grid.out), x.dtype)
    alone = weight.shape[1] == 1 and filters == groups
    matrix = np.ascontiguousarray(weight).reshape(filters, -1) if alone else _by_group(weight, groups)
    for number, image in enumerate(lifted):
        if alone:
            depthwise(image, matrix, grid, result[number], finish, number, empty)
        elif groups == 1 and _FEW * filters <= len(image) and not _is_sparse(grid):
            _taps_beside(image, weight, grid, result[number], empty)
            finish.apply(number, result[number])
        else:
            _by_taps(image, matrix, grid, result[number], finish, number, empty)
    return result.reshape(len(x), filters, *grid.out[lift:])


def _is_sparse(grid: Grid) -> bool:
    """Whether most of a row are columns too many, as under windows nearly as wide as the image."""
    return grid.pitch > _SPARSE * grid.out[2]


def _by_group(weight: Array, groups: int) -> Array:
    """The filters (groups, filters of a group, C of a group * taps)."""
    return np.ascontiguousarray(weight).reshape(groups, len(weight) // groups, -1)


def _pointwise(x: Array, weight: Array, finish: Epilogue, stride: tuple[int, ...], groups: int, empty: Empty) -> Array:
    """Windows of one cell: a product over the channels."""
    if max(stride) > 1:
        steps = (slice(None), slice(None), *(slice(None, None, s) for s in stride))
        picked = empty(x[steps].shape, x.dtype)
        picked[...] = x[steps]
        x = picked
    count, channels, *spatial = x.shape
    filters = weight.shape[0]
    size = int(np.prod(spatial))
    flat = np.ascontiguousarray(x).reshape(count, groups, channels // groups, size)
    matrix = _by_group(weight, groups)
    out = empty((count, filters, size), x.dtype)
    if groups == 1:
        np.matmul(matrix[0], flat[:, 0], out=out)
    elif channels == filters == groups:
        np.multiply(matrix.reshape(filters, 1), flat.reshape(count, channels, size), out=out)
    else:
        np.matmul(matrix, flat, out=out.reshape(count, groups, filters // groups, size))
    for number, image in enumerate(out):
        finish.apply(number, image)
    shaped: Array = out.reshape(count, filters, *spatial)
    return shaped


def _by_taps(image: Array, matrix: Array, grid: Grid, result: Array, finish: Epilogue, number: int, empty: Empty) -> None:
    """Image ``number`` (C, D, H, W) and ``matrix`` (groups, filters of a group, C of a group * taps) into ``result``."""
    phases = phases_of(image, grid, empty)
    channels, groups = len(image), len(matrix)
    depth, height, width = grid.out
    pitch = width if _is_sparse(grid) else grid.pitch
    step = max(1, min(height, _BLOCK // (channels * len(grid.taps) * pitch)))
    whole = step >= height and depth == 1
    for plane, first in product(range(depth), range(0, height, step)):
        count = min(step, height - first)
        columns = empty((channels, len(grid.taps), count, pitch), image.dtype)
        for t, (phase, deeper, offset) in enumerate(grid.taps):
            columns[:, t] = _cells(phases[phase], plane + deeper, first * grid.pitch + offset, (count, pitch), grid.pitch)
        laid = columns.reshape(groups, -1, count * pitch)
        goal = result[:, plane, first : first + count]
        if whole and pitch == width:
            np.matmul(matrix, laid, out=goal.reshape(groups, -1, count * width))
        else:
            wide = np.matmul(matrix, laid, out=empty((groups, matrix.shape[1], count * pitch), image.dtype))
            rows = wide.reshape(-1, count, pitch)[:, :, :width]
            if whole:
                finish.apply(number, goal, rows)
                return
            goal[...] = rows
    finish.apply(number, result)


def _cells(phase: Array, plane: int, start: int, shape: tuple[int, int], pitch: int) -> Array:
    """``shape`` cells of every channel from ``start`` on, in rows of ``pitch``; a row may end in the next one."""
    of_channel, of_plane, item = phase.strides
    strides = (of_channel, pitch * item, item)
    cells: Array = np.ndarray((len(phase), *shape), phase.dtype, phase, plane * of_plane + start * item, strides)
    return cells


def _taps_beside(image: Array, weight: Array, grid: Grid, result: Array, empty: Empty) -> None:
    """One image and ``weight`` (filters, C, taps): what each tap gives of the cells where they lie, by one product, then added.

    Unlike :func:`_by_taps` this lays out no windows, but it adds results, of which few filters make few.
    """
    phases = phases_of(image, grid, empty)
    filters, channels = weight.shape[:2]
    depth, height, width = grid.out
    matrices = np.ascontiguousarray(weight.reshape(filters, channels, -1).transpose(2, 0, 1))
    together: dict[tuple[tuple[int, int, int], int], list[int]] = {}
    for t, (phase, deeper, _) in enumerate(grid.taps):
        together.setdefault((phase, deeper), []).append(t)
    step = max(1, min(height, _BLOCK // (len(matrices) * filters * grid.pitch)))
    for plane, first in product(range(depth), range(0, height, step)):
        count = min(step, height - first)
        begin, span = first * grid.pitch, count * grid.pitch
        total = empty((filters, span), image.dtype)
        total.fill(0)
        for (phase, deeper), taps in together.items():
            offsets = [grid.taps[t][2] for t in taps]
            cells = phases[phase][:, plane + deeper, begin + min(offsets) : begin + max(offsets) + span]
            chosen = matrices if len(taps) == len(matrices) else matrices[taps]
            products = empty((len(taps) * filters, cells.shape[1]), image.dtype)
            np.matmul(chosen.reshape(-1, channels), cells, out=products)
            for offset, part in zip(offsets, products.reshape(len(taps), filters, -1), strict=True):
                total += part[:, offset - min(offsets) :][:, :span]
        result[:, plane, first : first + count] = total.reshape(filters, count, grid.pitch)[:, :, :width]
