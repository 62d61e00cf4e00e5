"""Gradients of the feature maps of region pooling. Regions have none."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry, no_gradient
from graphshare.ops.kernel import Array
from graphshare.ops.roi.kernel import align_axes, bins_of, round_half_away, sensitive_bins


def roi_pooling(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` at the first maximum of each bin."""
    x, rois = entry.inputs
    height, width = entry.attrs["pooled_size"]
    dx = np.zeros_like(x)
    corners = round_half_away(rois[:, 1:] * x.dtype.type(entry.attrs["spatial_scale"]))
    channels = np.arange(x.shape[1])
    for gradient, region, (x1, y1, x2, y2) in zip(dy, rois, corners, strict=True):
        if not 0 <= int(region[0]) < len(dx):
            continue
        number = int(region[0])
        columns = bins_of(x1, max(x2 - x1 + 1, 1), width, x.shape[3])
        for i, (top, bottom) in enumerate(bins_of(y1, max(y2 - y1 + 1, 1), height, x.shape[2])):
            for j, (left, right) in enumerate(columns):
                if top < bottom and left < right:
                    best = x[number, :, top:bottom, left:right].reshape(x.shape[1], -1).argmax(axis=1)
                    row, column = np.divmod(best, right - left)
                    np.add.at(dx[number], (channels, top + row, left + column), gradient[:, i, j])
    return np.asarray(dx)


def roi_align(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` shared among the pixels that each sample was interpolated from."""
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
        share = np.repeat(np.repeat(whole, rows, axis=1), columns, axis=2) / x.dtype.type(rows * columns)
        part = dx[int(region[0]), :, top : top + down.shape[1], left : left + along.shape[1]]
        part += down.T @ share @ along
    return np.asarray(dx)


def ps_roi_pooling(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` shared equally among the pixels of each bin, in the bin's own channels."""
    x, rois = entry.inputs
    size, count = entry.attrs["pooled_size"], entry.attrs["output_dim"]
    group = entry.attrs["group_size"] or size
    dx = np.zeros_like(x)
    for gradient, region in zip(dy, rois, strict=True):
        sample = dx[int(region[0])].reshape(count, group, group, *x.shape[2:])
        for i, j, (top, bottom), (left, right) in sensitive_bins(entry.attrs, region, x.shape[2:]):
            part = sample[:, i[1], j[1], top:bottom, left:right]
            part += (gradient[:, i[0], j[0]] / ((bottom - top) * (right - left))).reshape(-1, 1, 1).astype(x.dtype)
    return np.asarray(dx)


GRADIENTS = (
    Gradient("ROIPooling", roi_pooling, reads_outputs=False),
    Gradient("_contrib_ROIAlign", roi_align, reads_outputs=False),
    Gradient("_contrib_PSROIPooling", ps_roi_pooling, reads_outputs=False),
    *no_gradient("MXNet registers no gradient of it and refuses its backward pass", "_contrib_RROIAlign", is_zero=False),
)
