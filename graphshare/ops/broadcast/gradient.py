"""Gradients of operators that repeat the elements of an array."""

from __future__ import annotations

from graphshare.ops.gradient import Gradient, TapeEntry, sum_to_shape
from graphshare.ops.kernel import Array
from graphshare.ops.permutation import permutation_vjp


def sum_broadcast(entry: TapeEntry, dy: Array) -> Array:
    """Return the sum over all places that an element was broadcast to."""
    return sum_to_shape(dy, entry.inputs[0].shape)


GRADIENTS = (
    *(Gradient(name, sum_broadcast, reads_outputs=False) for name in ("broadcast_to", "broadcast_axis", "broadcast_like")),
    *(Gradient(name, permutation_vjp(name), reads_outputs=False) for name in ("tile", "repeat")),
    Gradient("Pad", permutation_vjp("Pad", attrs={"constant_value": -1.0}), reads_outputs=False),
)
