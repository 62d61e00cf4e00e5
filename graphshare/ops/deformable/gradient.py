"""Gradients of deformable convolutions and of deformable position-sensitive pooling."""

from __future__ import annotations

import numpy as np

from graphshare.ops.deformable.regions import shift_bins
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.spatial_transform.gradient import bilinear_gradient
from graphshare.ops.spatial_transform.kernel import sample_bilinear, window_pairs


def deformable_ps_roi_pooling(entry: TapeEntry, dy: Array, dinside: Array | None = None) -> Gradients:
    """Return the gradients of data and offsets; the offset of a sample exactly on a pixel has none along that axis."""
    x, rois, *trans = entry.inputs
    dx, dtrans = np.zeros_like(x), [np.zeros_like(shift) for shift in trans]
    factor = x.dtype.type(entry.attrs["trans_std"])
    for part in shift_bins(entry.attrs, x.shape, rois, *trans):
        if not part.rows.size:
            continue
        share = np.full((1, part.rows.size), dy[part.place] / x.dtype.type(part.rows.size), x.dtype)
        plane = x[part.sample, part.channel][None]
        dplane, drows, dcolumns = bilinear_gradient(plane, part.rows, part.columns, share)
        dx[part.sample, part.channel] += dplane[0]
        if part.shift is not None:
            along = [(d * (at != np.floor(at))).sum() for d, at in ((dcolumns, part.columns), (drows, part.rows))]
            dtrans[0][part.shift] += np.array(along, x.dtype) * factor * part.extent
    return [dx, None, *dtrans]


def deformable_convolution(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of data, offsets, weight and bias. Offsets of positions clamped to the edge have none."""
    x, offset, weight, *bias = entry.inputs
    dx, doffset, _, dweight = _gradients(entry.attrs, (x, offset, weight), dy)
    return [dx, doffset, dweight, *([dy.sum(axis=(0, 2, 3))] if bias else [])]


def modulated_deformable_convolution(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of data, offsets, mask, weight and bias, which MXNet computes on GPUs only."""
    x, offset, mask, weight, *bias = entry.inputs
    gradients = _gradients(entry.attrs, (x, offset, weight), dy, mask)
    return [*gradients, *([dy.sum(axis=(0, 2, 3))] if bias else [])]


def _gradients(
    attrs: Attrs, inputs: tuple[Array, Array, Array], dy: Array, mask: Array | None = None
) -> tuple[Array, Array, Array | None, Array]:
    """Return the gradients of data, offsets, mask and weight."""
    x, offset, weight = inputs
    (kh, kw), stride, dilate, pad = window_pairs(attrs)
    n, channels = x.shape[:2]
    h, w = offset.shape[2:]
    shifts, groups = attrs["num_deformable_group"], attrs["num_group"]
    places = offset.reshape(n, shifts, kh, kw, 2, h, w)
    masks = None if mask is None else mask.reshape(n, shifts, kh, kw, h, w)
    rows = np.arange(kh).reshape(kh, 1, 1, 1) * dilate[0] + (np.arange(h) * stride[0] - pad[0]).reshape(h, 1)
    columns = np.arange(kw).reshape(1, kw, 1, 1) * dilate[1] + np.arange(w) * stride[1] - pad[1]
    kernels = weight.reshape(groups, weight.shape[0] // groups, -1)
    gradient = dy.reshape(n, groups, kernels.shape[1], h * w)
    dcells = (kernels.swapaxes(1, 2) @ gradient).reshape(n, channels, kh, kw, h, w)
    dx, doffset, dmasks = np.zeros_like(x), np.zeros_like(places), None if masks is None else np.zeros_like(masks)
    cells = np.empty_like(dcells)
    each = channels // shifts
    for sample, group in np.ndindex(n, shifts):
        part = slice(group * each, group * each + each)
        r, c = rows + places[sample, group, :, :, 0], columns + places[sample, group, :, :, 1]
        back = dcells[sample, part]
        if masks is None or dmasks is None:
            cells[sample, part], gradients = _clamp_gradient(x[sample, part], r, c, back)
        else:
            whole, factor = sample_bilinear(x[sample, part], r, c), masks[sample, group]
            dmasks[sample, group] = (back * whole).sum(axis=0)
            cells[sample, part], gradients = whole * factor, bilinear_gradient(x[sample, part], r, c, back * factor)
        dx[sample, part] += gradients[0]
        doffset[sample, group, :, :, 0], doffset[sample, group, :, :, 1] = gradients[1:]
    laid = cells.reshape(n, groups, kernels.shape[2], h * w)
    dweight = (gradient @ laid.swapaxes(2, 3)).sum(axis=0).reshape(weight.shape)
    return dx, doffset.reshape(offset.shape), None if dmasks is None or mask is None else dmasks.reshape(mask.shape), dweight


def _clamp_gradient(x: Array, rows: Array, columns: Array, dy: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    """Return the result of ``sample_clamped``, and the gradients of ``x`` and of the positions."""
    height, width = x.shape[1:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    r, c = rows.clip(0, height - 1), columns.clip(0, width - 1)
    dx, drows, dcolumns = bilinear_gradient(x, r, c, dy * inside)
    return sample_bilinear(x, r, c) * inside, (dx, drows * (rows <= height - 1), dcolumns * (columns <= width - 1))


GRADIENTS = (
    Gradient("_contrib_DeformablePSROIPooling", deformable_ps_roi_pooling, reads_outputs=False),
    Gradient("_contrib_DeformableConvolution", deformable_convolution, reads_outputs=False),
    Gradient("_contrib_ModulatedDeformableConvolution", modulated_deformable_convolution, reads_outputs=False),
)
