"""Gradients of concatenation and splitting."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import axis_of


def concat(entry: TapeEntry, dy: Array) -> Gradients:
    """Return for each input its part of ``dy``."""
    axis = entry.attrs["dim"] if "dim" in entry.attrs else entry.attrs["axis"]
    if axis is None:
        dy, axis, sizes = dy.reshape(-1), 0, [x.size for x in entry.inputs]
    else:
        axis = axis_of(axis, dy.ndim)
        sizes = [x.shape[axis] for x in entry.inputs]
    parts = np.split(dy, np.cumsum(sizes)[:-1].tolist(), axis)
    return [part.reshape(x.shape).astype(x.dtype, copy=False) for part, x in zip(parts, entry.inputs, strict=True)]


def stack(entry: TapeEntry, dy: Array) -> Gradients:
    """Return for each input its part of ``dy``."""
    return list(np.moveaxis(dy, entry.attrs["axis"], 0))


def split(entry: TapeEntry, *dys: Array | None) -> Array:
    """Return the gradients of the parts, concatenated; zeros for unused parts."""
    (x,) = entry.inputs
    axis = axis_of(entry.attrs["axis"], x.ndim)
    dx = np.zeros_like(x)
    count, sections = x.shape[axis], entry.attrs.get("num_outputs") or entry.attrs.get("sections") or 0
    bounds = [i * count // sections for i in range(sections + 1)] if sections else [*entry.attrs["indices"], count]
    for dy, begin, end in zip(dys, bounds, bounds[1:], strict=False):
        if dy is not None:
            part = dx[(slice(None),) * axis + (slice(begin, end),)]
            part += dy.reshape(part.shape)
    return np.asarray(dx)


GRADIENTS = (
    *(Gradient(name, concat, reads_outputs=False) for name in ("Concat", "_rnn_param_concat", "_npi_concatenate")),
    Gradient("stack", stack, reads_inputs=False, reads_outputs=False),
    Gradient("SliceChannel", split, reads_outputs=False),
    Gradient("_split_v2", split, reads_outputs=False),
    Gradient("Crop", permutation_vjp("Crop"), reads_outputs=False),
)
