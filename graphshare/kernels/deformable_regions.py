"""Regions pooled part by part, each part from channels of its own and moved by what a network says."""

from __future__ import annotations

import numpy as np

from graphshare.kernels.inference import dims, same_types, unify
from graphshare.kernels.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes
from graphshare.kernels.sampling import bilinear


def deformable_ps_roi_pooling(context: Context, attrs: Attrs, x: Array, rois: Array, *trans: Array) -> tuple[Array, Array]:
    """The mean of points sampled in each bin ``(R, output_dim, p, p)``, 0 where all are outside; and how many were inside.

    A region is a row (sample, x1, y1, x2, y2); ``trans`` ``(R, 2 * classes, part, part)`` moves its bins in units of its size.
    """
    size, count, group = attrs["pooled_size"], attrs["output_dim"], attrs["group_size"]
    part, points = attrs["part_size"] or size, attrs["sample_per_part"]
    moved = not attrs["no_trans"]
    classes = trans[0].shape[1] // 2 if moved else 1
    number = x.dtype.type
    out = np.zeros((len(rois), count, size, size), x.dtype)
    inside = np.zeros_like(out)
    cells = np.clip(np.arange(size) * group // size, 0, group - 1)
    parts = np.arange(size) * part // size
    steps = np.arange(points).astype(x.dtype)
    for r, region in enumerate(rois):
        sample = int(region[0])
        if not 0 <= sample < len(x):
            raise KernelError(f"a region names sample {sample}, but there are {len(x)}")
        corners = np.copysign(np.floor(np.abs(region[1:]) + number(0.5)), region[1:])
        start = corners[:2] * number(attrs["spatial_scale"]) - number(0.5)
        extent = np.maximum((corners[2:] + 1) * number(attrs["spatial_scale"]) - number(0.5) - start, number(0.1))
        each = extent / number(size)
        for channel, i, j in np.ndindex(count, size, size):
            shift = np.zeros(2, x.dtype)
            if moved:
                of = 2 * (channel // (count // classes))
                shift = trans[0][r, of : of + 2, parts[i], parts[j]] * number(attrs["trans_std"])
            left, top = np.array([j, i], x.dtype) * each + start + shift * extent
            columns, rows = left + steps * (each[0] / number(points)), top + steps * (each[1] / number(points))
            yy, xx = np.meshgrid(rows, columns, indexing="ij")
            height, width = x.shape[2:]
            seen = (xx >= -0.5) & (xx <= width - 0.5) & (yy >= -0.5) & (yy <= height - 0.5)
            inside[r, channel, i, j] = seen.sum()
            if seen.any():
                plane = x[sample, (channel * group + cells[i]) * group + cells[j]][None]
                values = bilinear(plane, yy[seen].clip(0, height - 1), xx[seen].clip(0, width - 1))
                out[r, channel, i, j] = values.mean()
    return out, inside


def _shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    count, _ = dims(unify(inputs[1], (None, 5)), 2)
    size = attrs["pooled_size"]
    pooled = (count, attrs["output_dim"], size, size)
    part = attrs["part_size"] or size
    channels = attrs["output_dim"] * attrs["group_size"] ** 2
    moved = [unify(shape, (count, None, part, part)) for shape in inputs[2:]]
    return [unify(inputs[0], (None, channels, None, None)), (count, 5), *moved], [unify(pooled, y) for y in outputs]


KERNELS = (Kernel("_contrib_DeformablePSROIPooling", deformable_ps_roi_pooling, _shapes, same_types),)
