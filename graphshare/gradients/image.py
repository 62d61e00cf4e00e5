"""Gradients of images on their way to tensors, as MXNet has them, which are not always the derivative."""

from __future__ import annotations

import numpy as np

from graphshare.gradients.gradient import Gradient, Record
from graphshare.kernels.image import by_channel
from graphshare.kernels.kernel import Array


def to_tensor(record: Record, dy: Array) -> Array:
    """The numbers in the order in which they are stored: neither divided by 255 nor with the channels moved back."""
    (x,) = record.inputs
    result: Array = np.ascontiguousarray(dy).reshape(x.shape).astype(x.dtype, copy=False)
    return result


def normalize(record: Record, dy: Array) -> Array:
    """Divided by the channel's spread."""
    result: Array = dy / by_channel(record.attrs["std"], dy.shape[-3])
    return result.astype(dy.dtype, copy=False)


def adjust_lighting(record: Record, dy: Array) -> Array:
    """As it comes: what is added does not depend on the image."""
    return dy


GRADIENTS = (
    Gradient("_image_to_tensor", to_tensor, reads_outputs=False),
    Gradient("_image_normalize", normalize, reads_inputs=False, reads_outputs=False),
    Gradient("_image_adjust_lighting", adjust_lighting, reads_inputs=False, reads_outputs=False),
)
