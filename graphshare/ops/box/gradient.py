"""The gradient of non-maximum suppression."""

from __future__ import annotations

import numpy as np

from graphshare.ops.box.kernel import survivors
from graphshare.ops.gradient import Gradient, TapeEntry, no_gradient
from graphshare.ops.kernel import Array


def box_nms(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return the gradients of the remaining rows at their inputs. As in MXNet, a change of format is ignored."""
    x = entry.inputs[0]
    if entry.attrs["topk"] == 0:
        return dy
    dx: Array = np.zeros_like(x)
    flat = (a.reshape(-1, *x.shape[-2:]) for a in (x, dy, dx))
    for rows, gradient, result in zip(*flat, strict=True):
        chosen = survivors(entry.attrs, rows)
        result[chosen] = gradient[: len(chosen)]
    return dx


GRADIENTS = (
    Gradient("_contrib_box_nms", box_nms, reads_outputs=False),
    *no_gradient("boxes are chosen, not computed", "_contrib_MultiBoxPrior", "_contrib_box_iou", "_contrib_box_decode"),
    *no_gradient("the result is counted, compared or constant", "_contrib_bipartite_matching", "_contrib_box_encode"),
)
