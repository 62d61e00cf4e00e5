"""Gradients of operators that take or replace a part of an array."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.slice.kernel import axis_span, slices
from graphshare.ops.unification import axis_of


def slice_part(entry: TapeEntry, dy: Array) -> Array:
    """Return zeros with ``dy`` in the place of the part."""
    dx = np.zeros_like(entry.inputs[0])
    dx[slices(entry.attrs, dx.ndim)] = dy
    return np.asarray(dx)


def slice_axis(entry: TapeEntry, dy: Array) -> Array:
    """Return zeros with ``dy`` in the place of the part along one axis."""
    dx = np.zeros_like(entry.inputs[0])
    axis = axis_of(entry.attrs["axis"], dx.ndim)
    dx[(slice(None),) * axis + (slice(*axis_span(entry.attrs, dx.shape[axis])),)] = dy
    return np.asarray(dx)


def slice_like(entry: TapeEntry, dy: Array) -> Array:
    """Return zeros with ``dy`` at the beginning of each axis."""
    dx = np.zeros_like(entry.inputs[0])
    dx[tuple(slice(0, size) for size in dy.shape)] = dy
    return np.asarray(dx)


def slice_assign(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the array outside the part, and of the value that replaced the part."""
    part = slices(entry.attrs, dy.ndim)
    dx = dy.copy()
    dx[part] = 0
    return [dx, dy[part]] if len(entry.requested) > 1 else [dx]


GRADIENTS = (
    Gradient("slice", slice_part, reads_outputs=False),
    Gradient("slice_axis", slice_axis, reads_outputs=False),
    Gradient("slice_like", slice_like, reads_outputs=False),
    Gradient("_slice_assign", slice_assign, reads_inputs=False, reads_outputs=False),
    Gradient("_slice_assign_scalar", slice_assign, reads_inputs=False, reads_outputs=False),
)
