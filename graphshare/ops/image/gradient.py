"""Gradients of image operators as in MXNet, where they are not always the derivative."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.image.kernel import by_channel
from graphshare.ops.kernel import Array
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unary.gradient import factor_vjp


def to_tensor(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient reshaped in memory order: neither divided by 255 nor transposed."""
    (x,) = entry.inputs
    result: Array = np.ascontiguousarray(dy).reshape(x.shape).astype(x.dtype, copy=False)
    return result


def normalize(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient divided by the standard deviation of the channel."""
    result: Array = dy / by_channel(entry.attrs["std"], dy.shape[-3])
    return result.astype(dy.dtype, copy=False)


def adjust_lighting(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient unchanged: the added shift does not depend on the image."""
    return dy


GRADIENTS = (
    Gradient("_image_to_tensor", to_tensor, reads_outputs=False),
    Gradient("_image_normalize", normalize, reads_inputs=False, reads_outputs=False),
    Gradient("_image_adjust_lighting", adjust_lighting, reads_inputs=False, reads_outputs=False),
    # as in MXNet, the gradient is not flipped
    *(
        Gradient(name, factor_vjp(1.0), reads_inputs=False, reads_outputs=False)
        for name in ("_image_flip_left_right", "_image_flip_top_bottom")
    ),
    Gradient("_image_crop", permutation_vjp("_image_crop"), reads_outputs=False),
)
