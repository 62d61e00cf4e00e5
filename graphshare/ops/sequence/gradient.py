"""Gradients of operators on padded sequences. Lengths have none."""

from __future__ import annotations

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.permutation import permutation_vjp


def sequence_mask(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` before each sample's length, zeros from there on."""
    if len(entry.inputs) == 1:
        return dy
    axis = entry.attrs["axis"]
    steps, counts = np.arange(dy.shape[axis]), convert(entry.inputs[1], np.int64)
    within = steps[:, None] < counts if axis == 0 else steps < counts[:, None]
    return np.asarray(dy * within.reshape(*within.shape, *(1,) * (dy.ndim - 2)))


GRADIENTS = (
    Gradient("SequenceMask", sequence_mask, reads_outputs=False),
    *(Gradient(name, permutation_vjp(name), reads_outputs=False) for name in ("SequenceLast", "SequenceReverse")),
)
