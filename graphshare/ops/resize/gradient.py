"""Gradients of images resized by interpolation, averaging or transposed convolution."""

from __future__ import annotations

from graphshare.ops.deconvolution.gradient import deconvolution_gradients
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.resize.kernel import apply_separable, averaging_matrix, bilinear_attrs, bin_counts, interpolation_matrix


def upsampling(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradient of each image: the sum of ``dy`` over the cells of each pixel."""
    if entry.attrs["sample_type"] == "bilinear":
        return deconvolution_gradients(bilinear_attrs(entry.attrs), entry, dy)
    gradients, first = [], 0
    total = entry.attrs["multi_input_mode"] == "sum" and len(entry.inputs) > 1
    for x in entry.inputs:
        part = dy if total else dy[:, first : first + x.shape[1]]
        first += x.shape[1]
        down, right = dy.shape[2] // x.shape[2], dy.shape[3] // x.shape[3]
        blocks = part.reshape(*x.shape[:3], down, x.shape[3], right)
        gradients.append(blocks.sum(axis=(3, 5)))
    return gradients


def adaptive_average(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` shared among the cells of each mean."""
    (x,) = entry.inputs
    height, width = bin_counts(entry.attrs)
    return apply_separable(dy, averaging_matrix(x.shape[2], height).T, averaging_matrix(x.shape[3], width).T)


def bilinear_resize(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` shared among the four pixels that each result was interpolated from."""
    x, corners = entry.inputs[0], entry.attrs["align_corners"]
    rows, columns = (interpolation_matrix(x.shape[axis], dy.shape[axis], corners).T for axis in (2, 3))
    return apply_separable(dy, rows, columns)


GRADIENTS = (
    Gradient("_contrib_AdaptiveAvgPooling2D", adaptive_average, reads_outputs=False),
    Gradient("_contrib_BilinearResize2D", bilinear_resize, reads_outputs=False),
    Gradient("UpSampling", upsampling, reads_outputs=False),
)
