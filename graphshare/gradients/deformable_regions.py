"""The gradient of regions pooled in parts that a network moves: of the feature maps, and of what moves the parts."""

from __future__ import annotations

import numpy as np

from graphshare.gradients.gradient import Gradient, Gradients, Record
from graphshare.gradients.sampling import of_bilinear
from graphshare.kernels.deformable_regions import moved_bins
from graphshare.kernels.kernel import Array


def deformable_ps_roi_pooling(record: Record, dy: Array, dinside: Array | None = None) -> Gradients:
    """To the pixels that each sample lay between. Along an axis where a sample is on a pixel, it moves nothing."""
    x, rois, *trans = record.inputs
    dx, dtrans = np.zeros_like(x), [np.zeros_like(shift) for shift in trans]
    factor = x.dtype.type(record.attrs["trans_std"])
    for part in moved_bins(record.attrs, x.shape, rois, *trans):
        if not part.rows.size:
            continue
        share = np.full((1, part.rows.size), dy[part.place] / x.dtype.type(part.rows.size), x.dtype)
        plane = x[part.sample, part.channel][None]
        found, drows, dcolumns = of_bilinear(plane, part.rows, part.columns, share)
        dx[part.sample, part.channel] += found[0]
        if part.shift is not None:
            along = [(d * (at != np.floor(at))).sum() for d, at in ((dcolumns, part.columns), (drows, part.rows))]
            dtrans[0][part.shift] += np.array(along, x.dtype) * factor * part.extent
    return [dx, None, *dtrans]


GRADIENTS = (Gradient("_contrib_DeformablePSROIPooling", deformable_ps_roi_pooling, reads_outputs=False),)
