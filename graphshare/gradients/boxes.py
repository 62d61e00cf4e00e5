"""The gradient of suppression: to the rows that stayed."""

from __future__ import annotations

import numpy as np

from graphshare.gradients.gradient import Gradient, Record
from graphshare.kernels.boxes import survivors
from graphshare.kernels.kernel import Array


def box_nms(record: Record, dy: Array, *_: Array | None) -> Array:
    """Each row's where the row came from. A change of format is not gone back, as in MXNet."""
    x = record.inputs[0]
    if record.attrs["topk"] == 0:
        return dy
    dx: Array = np.zeros_like(x)
    flat = (a.reshape(-1, *x.shape[-2:]) for a in (x, dy, dx))
    for rows, gradient, result in zip(*flat, strict=True):
        chosen = survivors(record.attrs, rows)
        result[chosen] = gradient[: len(chosen)]
    return dx


GRADIENTS = (Gradient("_contrib_box_nms", box_nms, reads_outputs=False),)
