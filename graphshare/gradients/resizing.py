"""Gradients of images brought to another size: the same products, transposed."""

from __future__ import annotations

from graphshare.gradients.gradient import Gradient, Record
from graphshare.kernels.kernel import Array
from graphshare.kernels.resizing import along_both, between, bin_counts, means


def adaptive_average(record: Record, dy: Array) -> Array:
    """To the cells of each mean."""
    (x,) = record.inputs
    height, width = bin_counts(record.attrs)
    return along_both(dy, means(x.shape[2], height).T, means(x.shape[3], width).T)


def bilinear_resize(record: Record, dy: Array) -> Array:
    """To the four pixels that each was interpolated between."""
    x, corners = record.inputs[0], record.attrs["align_corners"]
    rows, columns = (between(x.shape[axis], dy.shape[axis], corners).T for axis in (2, 3))
    return along_both(dy, rows, columns)


GRADIENTS = (
    Gradient("_contrib_AdaptiveAvgPooling2D", adaptive_average, reads_outputs=False),
    Gradient("_contrib_BilinearResize2D", bilinear_resize, reads_outputs=False),
)
