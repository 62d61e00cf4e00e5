"""Cross-correlation of images (N, C, spatial axes) with filters, as matrix products.

In general the cells under all taps are copied side by side for one product ("im2col"). Whole rows are copied, so the product
has a few surplus columns in each, which are dropped when the result is copied. For few filters on many channels it is cheaper
to multiply the image in place by each tap and add the results; a filter for each channel is in :mod:`depthwise`. All images
are reshaped to three spatial axes.
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
"""Number of elements of copied windows at a time."""

_SPARSE = 2
"""Largest ratio of a row of the image to a row of the result for which whole rows are copied."""

_FEW = 2
"""Number of channels per filter from which products by tap are cheaper than copied windows."""


def correlate(x: Array, weight: Array, epilogue: Epilogue, window: Window, groups: int, empty: Empty = np.empty) -> Array:
    """Return the convolution (N, C, spatial) in the dtype of ``x``, with ``epilogue`` applied."""
    if max(window.extent) == 1 and not any(window.pad):
        return _pointwise(x, weight, epilogue, window.stride, groups, empty)
    lift = 3 - len(window.kernel)
    window = Window(
        (1,) * lift + window.kernel, (1,) * lift + window.stride, (1,) * lift + window.dilate, (0,) * lift + window.pad
    )
    lifted = x.reshape(x.shape[:2] + (1,) * lift + x.shape[2:])
    grid = grid_of(lifted.shape[2:], window)
    filters = weight.shape[0]
    result = empty((len(x), filters, *grid.out), x.dtype)
    is_depthwise = weight.shape[1] == 1 and filters == groups
    matrix = np.ascontiguousarray(weight).reshape(filters, -1) if is_depthwise else _group_filters(weight, groups)
    for number, image in enumerate(lifted):
        if is_depthwise:
            depthwise(image, matrix, grid, result[number], epilogue, number, empty)
        elif groups == 1 and _FEW * filters <= len(image) and not _is_sparse(grid):
            _by_shifted_sums(image, weight, grid, result[number], empty)
            epilogue.apply(number, result[number])
        else:
            _by_columns(image, matrix, grid, result[number], epilogue, number, empty)
    return result.reshape(len(x), filters, *grid.out[lift:])


def _is_sparse(grid: Grid) -> bool:
    """Return whether most columns of a row are surplus, as for windows nearly as wide as the image."""
    return grid.pitch > _SPARSE * grid.out[2]


def _group_filters(weight: Array, groups: int) -> Array:
    """Return the filters (groups, filters of a group, C of a group * taps)."""
    return np.ascontiguousarray(weight).reshape(groups, len(weight) // groups, -1)


def _pointwise(x: Array, weight: Array, epilogue: Epilogue, stride: tuple[int, ...], groups: int, empty: Empty) -> Array:
    """Return the convolution with windows of one cell: a product over the channels."""
    if max(stride) > 1:
        steps = (slice(None), slice(None), *(slice(None, None, s) for s in stride))
        picked = empty(x[steps].shape, x.dtype)
        picked[...] = x[steps]
        x = picked
    count, channels, *spatial = x.shape
    filters = weight.shape[0]
    size = int(np.prod(spatial))
    flat = np.ascontiguousarray(x).reshape(count, groups, channels // groups, size)
    matrix = _group_filters(weight, groups)
    out = empty((count, filters, size), x.dtype)
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


def _by_columns(image: Array, matrix: Array, grid: Grid, result: Array, epilogue: Epilogue, number: int, empty: Empty) -> None:
    """Correlate image ``number`` (C, D, H, W) with ``matrix`` (groups, filters, C of a group * taps) into ``result``."""
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
        windows = columns.reshape(groups, -1, count * pitch)
        target = result[:, plane, first : first + count]
        if whole and pitch == width:
            np.matmul(matrix, windows, out=target.reshape(groups, -1, count * width))
        else:
            wide = np.matmul(matrix, windows, out=empty((groups, matrix.shape[1], count * pitch), image.dtype))
            rows = wide.reshape(-1, count, pitch)[:, :, :width]
            if whole:
                epilogue.apply(number, target, rows)
                return
            target[...] = rows
    epilogue.apply(number, result)


def _cells(phase: Array, plane: int, start: int, shape: tuple[int, int], pitch: int) -> Array:
    """Return a view of ``shape`` cells of each channel from ``start``, in rows of ``pitch``; rows may overlap."""
    channel_stride, plane_stride, item = phase.strides
    strides = (channel_stride, pitch * item, item)
    cells: Array = np.ndarray((len(phase), *shape), phase.dtype, phase, plane * plane_stride + start * item, strides)
    return cells


def _by_shifted_sums(image: Array, weight: Array, grid: Grid, result: Array, empty: Empty) -> None:
    """Correlate an image with ``weight`` (filters, C, taps): one product of the image with all taps, then shifted sums.

    Unlike :func:`_by_columns` this copies no windows, but adds results, which are small for few filters.
    """
    phases = phases_of(image, grid, empty)
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
            cells = phases[phase][:, plane + deeper, begin + min(offsets) : begin + max(offsets) + span]
            chosen = matrices if len(taps) == len(matrices) else matrices[taps]
            products = empty((len(taps) * filters, cells.shape[1]), image.dtype)
            np.matmul(chosen.reshape(-1, channels), cells, out=products)
            for offset, part in zip(offsets, products.reshape(len(taps), filters, -1), strict=True):
                total += part[:, offset - min(offsets) :][:, :span]
        result[:, plane, first : first + count] = total.reshape(filters, count, grid.pitch)[:, :, :width]
