"""Gradients of changes of type: back in the input's."""

from __future__ import annotations

from graphshare.gradients.gradient import Gradient, Gradients, Record
from graphshare.kernels.kernel import Array


def cast(record: Record, dy: Array) -> Array:
    """In the input's type."""
    return dy.astype(record.inputs[0].dtype, copy=False)


def multicast(record: Record, *dys: Array | None) -> Gradients:
    """Each in its input's type."""
    return [None if dy is None else dy.astype(x.dtype, copy=False) for dy, x in zip(dys, record.inputs, strict=False)]


GRADIENTS = (
    Gradient("Cast", cast, reads_outputs=False),
    Gradient("amp_cast", cast, reads_outputs=False),
    Gradient("amp_multicast", multicast, reads_outputs=False),
)
