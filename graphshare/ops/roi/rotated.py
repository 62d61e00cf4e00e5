"""Regions rotated by an angle, pooled to one size: a row (sample, x, y, width, height, degrees) by its centre."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes
from graphshare.ops.limits import Limits, require_memory, with_limits
from graphshare.ops.spatial_transform.kernel import sample_bilinear
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify
from graphshare.text.format import format_count


def roi_align_rotated(context: Context, attrs: Attrs, x: Array, rois: Array) -> Array:
    """Return the mean of points sampled in each bin: ``(R, C, h, w)``; points more than 1 outside the image give 0."""
    rows, columns = attrs["pooled_size"]
    height, width = x.shape[2:]
    scale = x.dtype.type(attrs["spatial_scale"])
    out: Array = np.zeros((len(rois), x.shape[1], rows, columns), x.dtype)
    for result, region in zip(out, rois, strict=True):
        number = int(region[0])
        if not 0 <= number < len(x):
            raise KernelError(f"a region has sample {number}, but the batch has {format_count(len(x), 'sample')}")
        middle, size = region[1:3] * scale, np.maximum(region[3:5] * scale, 1)
        angle = x.dtype.type(np.float64(region[5]) * np.pi / 180)
        down, right = _points(size[1], rows, attrs["sampling_ratio"]), _points(size[0], columns, attrs["sampling_ratio"])
        require_memory(64 * len(down) * len(right) + 16 * x.shape[1] * len(down) * len(right))
        yy, xx = np.meshgrid(down, right, indexing="ij")
        across = xx * np.cos(angle) + yy * np.sin(angle) + middle[0]
        along = yy * np.cos(angle) - xx * np.sin(angle) + middle[1]
        inside = (along >= -1) & (along <= height) & (across >= -1) & (across <= width)
        samples = sample_bilinear(x[number], along.clip(0, height - 1), across.clip(0, width - 1)) * inside
        parts = samples.reshape(x.shape[1], rows, len(down) // rows, columns, len(right) // columns)
        result[...] = parts.mean(axis=(2, 4))
    return out


def _points(size: Any, bins: int, ratio: int) -> Array:
    """Return the coordinates of samples along an axis from the centre of the region, equally many in each bin.

    Each step is computed in the dtype of ``size``, as in MXNet: the last bit decides whether a point on the edge is inside.
    """
    number = size.dtype.type
    each = ratio if ratio > 0 else int(np.ceil(size / bins))
    require_memory(32 * bins * each)
    width = size / number(bins)
    steps = (np.arange(each).astype(size.dtype) + number(0.5)) * width / number(each)
    starts = -size / number(2) + np.arange(bins).astype(size.dtype) * width
    return np.asarray(starts[:, None] + steps).reshape(-1)


def _shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    channels, (count, _) = dims_of_rank(inputs[0], 4)[1], dims_of_rank(unify(inputs[1], (None, 6)), 2)
    return [inputs[0], (count, 6)], [unify((count, channels, *attrs["pooled_size"]), outputs[0])]


KERNELS = with_limits(
    Limits(elements=True, finite=True, positive=("pooled_size",)),
    Kernel("_contrib_RROIAlign", roi_align_rotated, _shapes, same_dtypes),
)
