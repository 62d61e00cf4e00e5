"""Gradients of operators on padded sequences. Lengths have none."""

from __future__ import annotations

import numpy as np

from graphshare.gradients.gradient import Gradient, Record
from graphshare.kernels.conversion import convert
from graphshare.kernels.kernel import Array


def sequence_mask(record: Record, dy: Array) -> Array:
    """Through before each sample's length."""
    if len(record.inputs) == 1:
        return dy
    axis = record.attrs["axis"]
    steps, counts = np.arange(dy.shape[axis]), convert(record.inputs[1], np.int64)
    within = steps[:, None] < counts if axis == 0 else steps < counts[:, None]
    return np.asarray(dy * within.reshape(*within.shape, *(1,) * (dy.ndim - 2)))


GRADIENTS = (Gradient("SequenceMask", sequence_mask, reads_outputs=False),)
