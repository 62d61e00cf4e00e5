"""Gradients of operators that put elements into another order."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import axis_of


def transpose(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` transposed by the inverse permutation of ``axes``."""
    axes = entry.attrs["axes"]
    if not axes:
        return np.asarray(dy.transpose())
    return np.asarray(dy.transpose(np.argsort([axis_of(axis, dy.ndim) for axis in axes]).tolist()))


def swap_axes(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` with the same two axes swapped."""
    return np.asarray(dy.swapaxes(entry.attrs["dim1"], entry.attrs["dim2"]))


def reverse(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` with the same axes reversed."""
    return np.flip(dy, tuple(axis_of(axis, dy.ndim) for axis in entry.attrs["axis"]))


GRADIENTS = (
    Gradient("transpose", transpose, reads_inputs=False, reads_outputs=False),
    Gradient("_np_transpose", transpose, reads_inputs=False, reads_outputs=False),
    Gradient("SwapAxis", swap_axes, reads_inputs=False, reads_outputs=False),
    Gradient("reverse", reverse, reads_inputs=False, reads_outputs=False),
    *(Gradient(name, permutation_vjp(name), reads_outputs=False) for name in ("depth_to_space", "space_to_depth")),
)
