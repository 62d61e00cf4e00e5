"""Position-sensitive pooling of regions: each bin has channels of its own and is moved by learned offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes
from graphshare.ops.limits import FLOATS, Limits, require, with_limits
from graphshare.ops.spatial_transform.kernel import sample_bilinear
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify
from graphshare.text.format import format_count


class Bin(NamedTuple):
    """One bin of one region: its index in the result, sample and channel of the image, and the sampled points.

    ``rows`` and ``columns`` are the points inside the image, clamped to its pixels. ``extent`` is the width and height of the
    region, ``shift`` the index in ``trans`` of the offsets along x and y, or None.
    """

    place: tuple[int, int, int, int]
    sample: int
    channel: int
    rows: Array
    columns: Array
    extent: Array
    shift: tuple[int, slice, int, int] | None


def shift_bins(attrs: Attrs, shape: tuple[int, ...], rois: Array, *trans: Array) -> Iterator[Bin]:
    """Return the bins of all regions over images of ``shape`` (N, C, H, W).

    Raises:
        KernelError: a region refers to a sample that does not exist.
    """
    size, count, group = attrs["pooled_size"], attrs["output_dim"], attrs["group_size"]
    part, points = attrs["part_size"] or size, attrs["sample_per_part"]
    shifted, number = not attrs["no_trans"], rois.dtype.type
    classes = trans[0].shape[1] // 2 if shifted else 1
    height, width = shape[2:]
    cells = np.clip(np.arange(size) * group // size, 0, group - 1)
    parts = np.arange(size) * part // size
    steps = np.arange(points).astype(rois.dtype)
    for r, region in enumerate(rois):
        sample = int(region[0])
        if not 0 <= sample < shape[0]:
            raise KernelError(f"a region refers to sample {sample}, but there are {shape[0]}")
        corners = np.copysign(np.floor(np.abs(region[1:]) + number(0.5)), region[1:])
        start = corners[:2] * number(attrs["spatial_scale"]) - number(0.5)
        extent = np.maximum((corners[2:] + 1) * number(attrs["spatial_scale"]) - number(0.5) - start, number(0.1))
        each = extent / number(size)
        for channel, i, j in np.ndindex(count, size, size):
            first = np.array([j, i], rois.dtype) * each + start
            place = None
            if shifted:
                require(count >= classes, f"{format_count(classes, 'class')} of offsets for {format_count(count, 'channel')}")
                begin = 2 * (channel // (count // classes))
                place = (r, slice(begin, begin + 2), int(parts[i]), int(parts[j]))
                first = first + trans[0][place] * number(attrs["trans_std"]) * extent
            columns, rows = (first[axis] + steps * (each[axis] / number(points)) for axis in (0, 1))
            yy, xx = np.meshgrid(rows, columns, indexing="ij")
            inside = (xx >= -0.5) & (xx <= width - 0.5) & (yy >= -0.5) & (yy <= height - 0.5)
            plane = int((channel * group + cells[i]) * group + cells[j])
            rows, columns = yy[inside].clip(0, height - 1), xx[inside].clip(0, width - 1)
            yield Bin((r, channel, i, j), sample, plane, rows, columns, extent, place)


def deformable_ps_roi_pooling(context: Context, attrs: Attrs, x: Array, rois: Array, *trans: Array) -> tuple[Array, Array]:
    """Return the mean of the points in each bin ``(R, output_dim, p, p)``, 0 without any, and their number.

    A region is a row (sample, x1, y1, x2, y2); ``trans`` ``(R, 2 * classes, part, part)`` moves its bins in units of its size.
    """
    size = attrs["pooled_size"]
    out = np.zeros((len(rois), attrs["output_dim"], size, size), x.dtype)
    inside = np.zeros_like(out)
    for part in shift_bins(attrs, x.shape, rois, *trans):
        inside[part.place] = part.rows.size
        if part.rows.size:
            out[part.place] = sample_bilinear(x[part.sample, part.channel][None], part.rows, part.columns).mean()
    return out, inside


def _infer_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    count, _ = dims_of_rank(unify(inputs[1], (None, 5)), 2)
    size = attrs["pooled_size"]
    pooled = (count, attrs["output_dim"], size, size)
    part = attrs["part_size"] or size
    channels = attrs["output_dim"] * attrs["group_size"] ** 2
    shifts = [unify(shape, (count, None, part, part)) for shape in inputs[2:]]
    for shift in shifts:
        pairs = None if shift is None else shift[1]
        fits = pairs is None or 2 <= pairs <= 2 * attrs["output_dim"] + 1
        require(fits, f"trans has {pairs} channels, expected two for each class, and at most output_dim classes")
    return [unify(inputs[0], (None, channels, None, None)), (count, 5), *shifts], [unify(pooled, y) for y in outputs]


KERNELS = with_limits(
    Limits(dtypes=FLOATS, elements=True, finite=True, positive=("pooled_size", "group_size", "output_dim")),
    Kernel("_contrib_DeformablePSROIPooling", deformable_ps_roi_pooling, _infer_shapes, same_dtypes),
)
