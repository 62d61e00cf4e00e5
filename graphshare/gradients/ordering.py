"""Gradients of sorting: to the elements that the values are."""

from __future__ import annotations

import numpy as np

from graphshare.gradients.gradient import Gradient, Record, no_gradient
from graphshare.kernels.kernel import Array, Context
from graphshare.kernels.ordering import topk as forward


def topk(record: Record, dy: Array, *_: Array | None) -> Array | None:
    """Of the values; places and masks have none."""
    if record.attrs["ret_typ"] not in ("value", "both"):
        return None
    x = record.inputs[0]
    attrs = {**record.attrs, "ret_typ": "indices", "dtype": "int64"}
    places = np.asarray(forward(Context(), attrs, x))
    dx: Array = np.zeros_like(x)
    if record.attrs["axis"] is None:
        dx.reshape(-1)[places] = dy
    else:
        np.put_along_axis(dx, places, dy, record.attrs["axis"])
    return dx


def sort(record: Record, dy: Array) -> Array | None:
    """To where the values were."""
    attrs = {**record.attrs, "ret_typ": "value", "k": 0, "dtype": "int64"}
    return topk(Record(attrs, record.inputs, ()), dy)


GRADIENTS = (
    Gradient("topk", topk, reads_outputs=False),
    Gradient("sort", sort, reads_outputs=False),
    *no_gradient("a place is no value", "argsort"),
)
