"""Gradients of dtype conversions."""

from __future__ import annotations

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array


def cast(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient in the dtype of the input."""
    return dy.astype(entry.inputs[0].dtype, copy=False)


def multicast(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Return each gradient in the dtype of its input."""
    return [None if dy is None else dy.astype(x.dtype, copy=False) for dy, x in zip(dys, entry.inputs, strict=False)]


GRADIENTS = (
    Gradient("Cast", cast, reads_outputs=False),
    Gradient("amp_cast", cast, reads_outputs=False),
    Gradient("amp_multicast", multicast, reads_outputs=False),
)
