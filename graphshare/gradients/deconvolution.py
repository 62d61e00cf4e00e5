"""Gradients of transposed convolution: those of a convolution with the parts of data and output exchanged."""

from __future__ import annotations

import numpy as np

from graphshare.gradients.convolution import of_weight
from graphshare.gradients.gradient import Gradient, Gradients, Record
from graphshare.kernels.correlation import correlate
from graphshare.kernels.deconvolution import bilinear_attrs, fitted
from graphshare.kernels.finish import Finish
from graphshare.kernels.kernel import Array, Attrs
from graphshare.kernels.windows import computed_in, is_channels_last


def deconvolution(record: Record, dy: Array) -> Gradients:
    """Of data, weight and bias."""
    return _gradients(record.attrs, record, dy)


def _gradients(attrs: Attrs, record: Record, dy: Array) -> Gradients:
    x, weight, dy = computed_in(record.inputs[0]), computed_in(record.inputs[1]), computed_in(dy)
    given, last, groups = record.inputs[0].dtype, is_channels_last(attrs["layout"]), attrs["num_group"]
    if last:
        x, weight, dy = (np.moveaxis(a, -1, 1) for a in (x, weight, dy))
    window, _ = fitted(attrs, x.shape[2:])
    whole = tuple(slice(0, n) for n in x.shape)
    filters, share = weight.shape[:2]
    dx = dw = None
    if record.wanted[0]:
        dx = correlate(np.ascontiguousarray(dy), weight, Finish(), window, groups)[whole]
    if record.wanted[1]:
        dw = of_weight(dy, x, (filters, share, *weight.shape[2:]), window, groups)
    if last:
        dx, dw = (None if a is None else np.moveaxis(a, 1, -1) for a in (dx, dw))
    found = [None if a is None else np.ascontiguousarray(a, dtype=given) for a in (dx, dw)]
    if len(record.inputs) > 2:
        found.append(dy.sum(axis=(0, *range(2, dy.ndim))).astype(given, copy=False))
    return found


def upsampling(record: Record, dy: Array) -> Gradients:
    """Each image's gradient summed over the cells that a pixel became."""
    if record.attrs["sample_type"] == "bilinear":
        return _gradients(bilinear_attrs(record.attrs), record, dy)
    found, first = [], 0
    total = record.attrs["multi_input_mode"] == "sum" and len(record.inputs) > 1
    for x in record.inputs:
        part = dy if total else dy[:, first : first + x.shape[1]]
        first += x.shape[1]
        down, right = dy.shape[2] // x.shape[2], dy.shape[3] // x.shape[3]
        blocks = part.reshape(*x.shape[:3], down, x.shape[3], right)
        found.append(blocks.sum(axis=(3, 5)))
    return found


GRADIENTS = (
    Gradient("Deconvolution", deconvolution, reads_outputs=False),
    Gradient("UpSampling", upsampling, reads_outputs=False),
)
