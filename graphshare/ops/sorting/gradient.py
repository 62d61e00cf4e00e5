"""Gradients of sorting: to the original positions of the values."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry, no_gradient
from graphshare.ops.kernel import Array, Context
from graphshare.ops.sorting.kernel import topk as forward


def topk(entry: TapeEntry, dy: Array, *_: Array | None) -> Array | None:
    """Return ``dy`` at the original positions of the values; indices and masks have no gradient."""
    if entry.attrs["ret_typ"] not in ("value", "both"):
        return None
    x = entry.inputs[0]
    attrs = {**entry.attrs, "ret_typ": "indices", "dtype": "int64"}
    places = np.asarray(forward(Context(), attrs, x))
    dx: Array = np.zeros_like(x)
    if entry.attrs["axis"] is None:
        dx.reshape(-1)[places] = dy
    else:
        np.put_along_axis(dx, places, dy, entry.attrs["axis"])
    return dx


def sort(entry: TapeEntry, dy: Array) -> Array | None:
    """Return ``dy`` at the original positions of the values."""
    attrs = {**entry.attrs, "ret_typ": "value", "k": 0, "dtype": "int64"}
    return topk(TapeEntry(attrs, entry.inputs, ()), dy)


GRADIENTS = (
    Gradient("topk", topk, reads_outputs=False),
    Gradient("sort", sort, reads_outputs=False),
    *no_gradient("an index has no derivative", "argsort"),
)
