"""Regions of feature maps, pooled to one size, and gradients of the maps; regions have none.

A region is a row (sample, x1, y1, x2, y2) in image coordinates, or, rotated, (sample, x, y, width,
height, degrees) by its centre.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry, no_gradient
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes
from graphshare.ops.limits import FLOATS, Limits, require, require_memory, with_limits
from graphshare.ops.spatial_transform.kernel import sample_bilinear
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify
from graphshare.text.format import format_count

Span = tuple[int, int]


def round_half_away(x: Array) -> Array:
    """Round to the nearest integer, half away from 0."""
    return np.asarray(np.copysign(np.floor(np.abs(x) + 0.5), x))


def _sample(x: Array, region: Array) -> Array:
    number = int(region[0])
    if not 0 <= number < x.shape[0]:
        raise KernelError(
            f"a region refers to sample {number}, but the batch has {format_count(x.shape[0], 'sample')}"
        )
    return np.asarray(x[number])


def divide_bins(start: float, size: float, count: int, limit: int) -> list[tuple[int, int]]:
    """Return begin and end of each bin, clipped to 0 and ``limit``."""
    each = np.float32(size) / np.float32(count)
    edges = [
        (np.floor(np.float32(i) * each) + start, np.ceil(np.float32(i + 1) * each) + start)
        for i in range(count)
    ]
    return [(int(min(max(a, 0), limit)), int(min(max(b, 0), limit))) for a, b in edges]


def roi_pooling(context: Context, attrs: Attrs, x: Array, rois: Array) -> Array:
    """Return each bin's maximum, 0 if empty: ``(R, C, h, w)``. Corners are rounded."""
    height, width = attrs["pooled_size"]
    out: Array = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    corners = round_half_away(rois[:, 1:] * x.dtype.type(attrs["spatial_scale"]))
    for result, region, (x1, y1, x2, y2) in zip(out, rois, corners, strict=True):
        if not 0 <= int(region[0]) < len(x):
            continue
        sample = _sample(x, region)
        # Bins smaller than a pixel repeat; each distinct one is computed once.
        rows, row_numbers = _number_bins(divide_bins(y1, max(y2 - y1 + 1, 1), height, x.shape[2]))
        columns, column_numbers = _number_bins(
            divide_bins(x1, max(x2 - x1 + 1, 1), width, x.shape[3])
        )
        table: Array = np.zeros((x.shape[1], len(rows), len(columns)), x.dtype)
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                if top < bottom and left < right:
                    table[:, i, j] = sample[:, top:bottom, left:right].max(axis=(1, 2))
        for i, number in enumerate(row_numbers):
            np.take(table[:, number], column_numbers, axis=1, out=result[:, i])
    return out


def _number_bins(bins: list[Span]) -> tuple[list[Span], list[int]]:
    numbers = {span: i for i, span in enumerate(dict.fromkeys(bins))}
    return list(numbers), [numbers[span] for span in bins]


def ps_roi_pooling(context: Context, attrs: Attrs, x: Array, rois: Array) -> Array:
    """Return each bin's mean, each from its own channels: ``(R, output_dim, p, p)``."""
    size, count = attrs["pooled_size"], attrs["output_dim"]
    group = attrs["group_size"] or size
    out: Array = np.zeros((len(rois), count, size, size), x.dtype)
    for result, region in zip(out, rois, strict=True):
        require(
            x.shape[1] == count * group * group,
            f"{format_count(x.shape[1], 'channel')}, expected {count} * {group} * {group}",
        )
        sample = _sample(x, region).reshape(count, group, group, *x.shape[2:])
        for i, j, (top, bottom), (left, right) in sensitive_bins(attrs, region, x.shape[2:]):
            result[:, i[0], j[0]] = sample[:, i[1], j[1], top:bottom, left:right].mean(axis=(1, 2))
    return out


def sensitive_bins(
    attrs: Attrs, region: Array, limits: tuple[int, ...]
) -> Iterator[tuple[Span, Span, Span, Span]]:
    """Yield a region's nonempty bins: row and column of bin and channels, and pixels of both."""
    size, scale = attrs["pooled_size"], attrs["spatial_scale"]
    group = attrs["group_size"] or size
    cells = [min(max(i * group // size, 0), group - 1) for i in range(size)]
    x1, y1 = round_half_away(region[1:3]) * scale
    x2, y2 = (round_half_away(region[3:5]) + 1) * scale
    # At least 0.1, as in MXNet, so that all regions have bins.
    columns = _fractional_bins(x1, max(x2 - x1, 0.1), size, limits[1])
    for i, rows in enumerate(_fractional_bins(y1, max(y2 - y1, 0.1), size, limits[0])):
        for j, pixels in enumerate(columns):
            if rows[0] < rows[1] and pixels[0] < pixels[1]:
                yield (i, cells[i]), (j, cells[j]), rows, pixels


def _fractional_bins(start: float, size: float, count: int, limit: int) -> list[tuple[int, int]]:
    each = np.float32(size) / np.float32(count)
    edges = [
        (np.floor(np.float32(i) * each + start), np.ceil(np.float32(i + 1) * each + start))
        for i in range(count)
    ]
    return [(int(min(max(a, 0), limit)), int(min(max(b, 0), limit))) for a, b in edges]


def roi_align(context: Context, attrs: Attrs, x: Array, rois: Array) -> Array:
    """Return bins' means of evenly spaced bilinear samples: ``(R, C, h, w)``; 0 for sample -1.

    ``position_sensitive`` gives each bin its own channels: ``(R, C / (h*w), h, w)``.
    """
    height, width = attrs["pooled_size"]
    sensitive = attrs["position_sensitive"]
    channels = x.shape[1] // (height * width) if sensitive else x.shape[1]
    out: Array = np.zeros((len(rois), channels, height, width), x.dtype)
    for result, region in zip(out, rois, strict=True):
        if int(region[0]) < 0:
            continue
        pooled = _align_region(attrs, _sample(x, region), region)
        if sensitive:
            i, j = np.indices((height, width))
            require(
                len(pooled) == channels * height * width,
                f"the number of channels, {len(pooled)}, is not a multiple of {height} * {width}",
            )
            pooled = pooled.reshape(channels, height, width, height, width)[:, i, j, i, j]
        result[...] = pooled
    return out


def align_axes(
    attrs: Attrs, size: tuple[int, ...], region: Array, dtype: Any
) -> tuple[tuple[Array, int], tuple[Array, int]]:
    """Return per axis the pixels' weights in samples of all bins, and the first pixel used."""
    # MXNet's corners are float32 for every dtype.
    shift = 0.5 if attrs["aligned"] else 0.0
    start_x, start_y, end_x, end_y = (
        region[1:].astype(np.float32) * np.float32(attrs["spatial_scale"]) - np.float32(shift)
    ).tolist()
    size_x, size_y = end_x - start_x, end_y - start_y
    if attrs["aligned"]:
        if not (size_x > 0 and size_y > 0):
            raise KernelError("an aligned region is empty, or ends before it begins")
    else:
        size_x, size_y = max(size_x, 1.0), max(size_y, 1.0)
    height, width = attrs["pooled_size"]
    real = np.float64 if dtype == np.float64 else np.float32
    rows = _samples(real(start_y), real(size_y), height, attrs["sample_ratio"])
    columns = _samples(real(start_x), real(size_x), width, attrs["sample_ratio"])
    return _interpolation(rows, size[0], dtype), _interpolation(columns, size[1], dtype)


def _align_region(attrs: Attrs, sample: Array, region: Array) -> Array:
    """Return ``(C, h, w)``, by two products over all channels in float64."""
    (down, top), (along, left) = align_axes(attrs, sample.shape[1:], region, sample.dtype)
    height, width = attrs["pooled_size"]
    down, rows = _mean_by_bin(down, height)
    along, columns = _mean_by_bin(along, width)
    window = sample[:, top : top + len(rows), left : left + len(columns)]
    if not (rows.all() and columns.all()):
        window = window[:, rows][:, :, columns]
    cells = np.ascontiguousarray(window, np.float64)
    channels, count, across = cells.shape
    means = cells.reshape(channels * count, across) @ along.T
    # All channels' columns side by side make the second product a single one.
    by_row = (
        means.reshape(channels, count, width).transpose(1, 0, 2).reshape(count, channels * width)
    )
    bins: Array = (down @ by_row).reshape(height, channels, width).transpose(1, 0, 2)
    return bins


def _mean_by_bin(matrix: Array, count: int) -> tuple[Array, Array]:
    """Return each bin's mean of rows (samples, pixels), for the pixels used, and these."""
    samples = len(matrix) // count
    total = matrix.reshape(count, samples, matrix.shape[1]).sum(axis=1, dtype=np.float64)
    used = total.any(axis=0)
    return total[:, used] / samples, used


def _samples(start: Any, size: Any, count: int, ratio: int) -> Array:
    """Return samples along an axis, ``ratio`` in each bin (else one per pixel, rounded up)."""
    real = type(size)
    each = size / real(count)
    number = ratio if ratio > 0 else int(np.ceil(each))
    require_memory(8 * 8 * count * number)  # with the coordinates and rows of the matrix
    starts = start + np.arange(count, dtype=real)[:, None] * each
    inner = (np.arange(number, dtype=real) + real(0.5)) * each / real(max(number, 1))
    return np.asarray((starts + inner).reshape(-1))


def _interpolation(places: Array, size: int, dtype: np.dtype[np.generic]) -> tuple[Array, int]:
    """Return a matrix that interpolates at ``places``, and the first pixel that it needs.

    Coordinates more than 1 outside give 0.
    """
    inside = (places >= -1) & (places <= size)
    places = places.clip(0, size - 1)
    low = places.astype(np.intp)
    high, part, row = np.minimum(low + 1, size - 1), places - low, np.arange(len(places))
    first = int(low.min(initial=size - 1))
    require_memory(16 * len(places) * (int(high.max(initial=0)) - first + 1))
    matrix: Array = np.zeros((len(places), int(high.max(initial=0)) - first + 1))
    np.add.at(matrix, (row, low - first), np.where(inside, 1 - part, 0))
    np.add.at(matrix, (row, high - first), np.where(inside, part, 0))
    return matrix.astype(dtype), first


def _pool_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    height, width = attrs["pooled_size"]
    channels = dims_of_rank(inputs[0], 4)[1]
    if channels is not None and attrs.get("position_sensitive"):
        channels //= height * width
    return _infer_regions(inputs, outputs, (channels, height, width))


def _ps_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return _infer_regions(
        inputs, outputs, (attrs["output_dim"], attrs["pooled_size"], attrs["pooled_size"])
    )


def _infer_regions(
    inputs: Shapes, outputs: Shapes, rest: tuple[int | None, ...]
) -> tuple[Shapes, Shapes]:
    regions = dims_of_rank(unify(inputs[1], (None, 5)), 2)
    output = dims_of_rank(unify((regions[0], *rest), outputs[0]), 4)
    return [dims_of_rank(inputs[0], 4), (output[0], 5)], [output]


def roi_align_rotated(context: Context, attrs: Attrs, x: Array, rois: Array) -> Array:
    """Return each bin's mean of points: ``(R, C, h, w)``; 0 more than 1 outside the image."""
    rows, columns = attrs["pooled_size"]
    height, width = x.shape[2:]
    scale = x.dtype.type(attrs["spatial_scale"])
    out: Array = np.zeros((len(rois), x.shape[1], rows, columns), x.dtype)
    for result, region in zip(out, rois, strict=True):
        sample = _sample(x, region)
        middle, size = region[1:3] * scale, np.maximum(region[3:5] * scale, 1)
        angle = x.dtype.type(np.float64(region[5]) * np.pi / 180)
        down, right = (
            _points(size[1], rows, attrs["sampling_ratio"]),
            _points(size[0], columns, attrs["sampling_ratio"]),
        )
        require_memory(64 * len(down) * len(right) + 16 * x.shape[1] * len(down) * len(right))
        yy, xx = np.meshgrid(down, right, indexing="ij")
        across = xx * np.cos(angle) + yy * np.sin(angle) + middle[0]
        along = yy * np.cos(angle) - xx * np.sin(angle) + middle[1]
        inside = (along >= -1) & (along <= height) & (across >= -1) & (across <= width)
        samples = (
            sample_bilinear(sample, along.clip(0, height - 1), across.clip(0, width - 1)) * inside
        )
        parts = samples.reshape(x.shape[1], rows, len(down) // rows, columns, len(right) // columns)
        result[...] = parts.mean(axis=(2, 4))
    return out


def _points(size: Any, bins: int, ratio: int) -> Array:
    """Return samples from the region's centre.

    As in MXNet, each step is computed in the dtype of ``size``: the last bit decides whether a
    point on the edge is inside.
    """
    number = size.dtype.type
    each = ratio if ratio > 0 else int(np.ceil(size / bins))
    require_memory(32 * bins * each)
    width = size / number(bins)
    steps = (np.arange(each).astype(size.dtype) + number(0.5)) * width / number(each)
    starts = -size / number(2) + np.arange(bins).astype(size.dtype) * width
    return np.asarray(starts[:, None] + steps).reshape(-1)


def _infer_rotated_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    channels, (count, _) = (
        dims_of_rank(inputs[0], 4)[1],
        dims_of_rank(unify(inputs[1], (None, 6)), 2),
    )
    return [inputs[0], (count, 6)], [unify((count, channels, *attrs["pooled_size"]), outputs[0])]


KERNELS = with_limits(
    Limits(
        dtypes=FLOATS,
        elements=True,
        finite=True,
        positive=("pooled_size", "group_size", "output_dim"),
        above=("spatial_scale",),
    ),
    Kernel("ROIPooling", roi_pooling, _pool_shapes, same_dtypes),
    Kernel("_contrib_PSROIPooling", ps_roi_pooling, _ps_shapes, same_dtypes),
    Kernel("_contrib_ROIAlign", roi_align, _pool_shapes, same_dtypes),
    *with_limits(
        Limits(elements=True, finite=True, positive=("pooled_size",)),
        Kernel("_contrib_RROIAlign", roi_align_rotated, _infer_rotated_shapes, same_dtypes),
    ),
)


def roi_pooling_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` at each bin's first maximum."""
    x, rois = entry.inputs
    height, width = entry.attrs["pooled_size"]
    dx = np.zeros_like(x)
    corners = round_half_away(rois[:, 1:] * x.dtype.type(entry.attrs["spatial_scale"]))
    channels = np.arange(x.shape[1])
    for gradient, region, (x1, y1, x2, y2) in zip(dy, rois, corners, strict=True):
        if not 0 <= int(region[0]) < len(dx):
            continue
        number = int(region[0])
        columns = divide_bins(x1, max(x2 - x1 + 1, 1), width, x.shape[3])
        for i, (top, bottom) in enumerate(divide_bins(y1, max(y2 - y1 + 1, 1), height, x.shape[2])):
            for j, (left, right) in enumerate(columns):
                if top < bottom and left < right:
                    best = (
                        x[number, :, top:bottom, left:right].reshape(x.shape[1], -1).argmax(axis=1)
                    )
                    row, column = np.divmod(best, right - left)
                    np.add.at(dx[number], (channels, top + row, left + column), gradient[:, i, j])
    return np.asarray(dx)


def roi_align_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Share ``dy`` among each sample's interpolated pixels."""
    x, rois = entry.inputs
    height, width = entry.attrs["pooled_size"]
    dx = np.zeros_like(x)
    for gradient, region in zip(dy, rois, strict=True):
        if not 0 <= int(region[0]) < len(dx):
            continue
        (down, top), (along, left) = align_axes(entry.attrs, x.shape[2:], region, x.dtype)
        whole = gradient
        if entry.attrs["position_sensitive"]:
            i, j = np.indices((height, width))
            by_bin = np.zeros((gradient.shape[0], height, width, height, width), gradient.dtype)
            by_bin[:, i, j, i, j] = gradient
            whole = by_bin.reshape(-1, height, width)
        rows, columns = len(down) // height, len(along) // width
        share = np.repeat(np.repeat(whole, rows, axis=1), columns, axis=2) / x.dtype.type(
            rows * columns
        )
        part = dx[int(region[0]), :, top : top + down.shape[1], left : left + along.shape[1]]
        part += down.T @ share @ along
    return np.asarray(dx)


def ps_roi_pooling_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Share ``dy`` equally among each bin's pixels, in its own channels."""
    x, rois = entry.inputs
    size, count = entry.attrs["pooled_size"], entry.attrs["output_dim"]
    group = entry.attrs["group_size"] or size
    dx = np.zeros_like(x)
    for gradient, region in zip(dy, rois, strict=True):
        sample = dx[int(region[0])].reshape(count, group, group, *x.shape[2:])
        for i, j, (top, bottom), (left, right) in sensitive_bins(entry.attrs, region, x.shape[2:]):
            part = sample[:, i[1], j[1], top:bottom, left:right]
            part += (
                (gradient[:, i[0], j[0]] / ((bottom - top) * (right - left)))
                .reshape(-1, 1, 1)
                .astype(x.dtype)
            )
    return np.asarray(dx)


GRADIENTS = (
    Gradient("ROIPooling", roi_pooling_gradient, reads_outputs=False),
    Gradient("_contrib_ROIAlign", roi_align_gradient, reads_outputs=False),
    Gradient("_contrib_PSROIPooling", ps_roi_pooling_gradient, reads_outputs=False),
    *no_gradient(
        "MXNet registers no gradient of it and refuses its backward pass",
        "_contrib_RROIAlign",
        is_zero=False,
    ),
)
