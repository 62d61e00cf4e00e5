"""Gradients of transposed convolution: those of a convolution with data and output exchanged."""

from __future__ import annotations

import numpy as np

from graphshare.ops.convolution.correlation import correlate
from graphshare.ops.convolution.epilogue import Epilogue
from graphshare.ops.convolution.gradient import weight_gradient
from graphshare.ops.deconvolution.kernel import fit_window
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.windows import is_channels_last, to_compute_dtype


def deconvolution(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of data, weight and bias."""
    return deconvolution_gradients(entry.attrs, entry, dy)


def deconvolution_gradients(attrs: Attrs, entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of a transposed convolution with attributes that may differ from those of the node."""
    x, weight, dy = to_compute_dtype(entry.inputs[0]), to_compute_dtype(entry.inputs[1]), to_compute_dtype(dy)
    dtype, last, groups = entry.inputs[0].dtype, is_channels_last(attrs["layout"]), attrs["num_group"]
    if last:
        x, weight, dy = (np.moveaxis(a, -1, 1) for a in (x, weight, dy))
    window, _ = fit_window(attrs, x.shape[2:])
    whole = tuple(slice(0, n) for n in x.shape)
    dx = dw = None
    if entry.requested[0]:
        dx = correlate(np.ascontiguousarray(dy), weight, Epilogue(), window, groups)[whole]
    if entry.requested[1]:
        dw = weight_gradient(dy, x, weight.shape, window, groups)
    if last:
        dx, dw = (None if a is None else np.moveaxis(a, 1, -1) for a in (dx, dw))
    gradients = [None if a is None else np.ascontiguousarray(a, dtype=dtype) for a in (dx, dw)]
    if len(entry.inputs) > 2:
        gradients.append(dy.sum(axis=(0, *range(2, dy.ndim))).astype(dtype, copy=False))
    return gradients


GRADIENTS = (Gradient("Deconvolution", deconvolution, reads_outputs=False),)
