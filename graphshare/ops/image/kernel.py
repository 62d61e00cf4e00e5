"""Images: (H, W, C) or batches (N, H, W, C) on their way to tensors (C, H, W), and tensors normalized."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shape, Shapes, Types
from graphshare.ops.limits import NUMBERS, Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.unification import same_dtypes, same_shapes, unify

# The main directions of colour in photographs times their spread, red, green and blue by rows (AlexNet's augmentation).
_COLOURS = np.array(
    [
        [55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009],
        [55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140],
        [55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203],
    ],
    np.float32,
)


def to_tensor(context: Context, attrs: Attrs, x: Array) -> Array:
    """Channels first, as float32 from 0 to 1."""
    return np.asarray(np.ascontiguousarray(np.moveaxis(x, -1, -3)).astype(np.float32) / np.float32(255))


def _tensor_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = _image(inputs[0])
    if shape is None:
        return inputs, outputs
    return inputs, [unify((*shape[:-3], shape[-1], *shape[-3:-1]), outputs[0])]


def _image(shape: Shape) -> Shape:
    if shape is not None and len(shape) not in (3, 4):
        raise KernelError(f"{len(shape)} axes where an image has 3, a batch 4")
    return shape


def _float32(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, ["float32"]


def normalize(context: Context, attrs: Attrs, x: Array) -> Array:
    """(x - mean) / std by channel, of tensors (C, H, W) or (N, C, H, W). Of one number all channels have the same."""
    channels = x.shape[-3]
    with refuse_invalid_call():
        return np.asarray((x - by_channel(attrs["mean"], channels)) / by_channel(attrs["std"], channels))


def by_channel(values: Sequence[float], channels: int) -> Array:
    """One number for each channel: ``(channels, 1, 1)``."""
    found = np.array(values, np.float32)
    return (np.resize(found, channels) if len(found) == 1 else found[:channels]).reshape(-1, 1, 1)


def _normalize_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    _image(inputs[0])
    return same_shapes(attrs, inputs, outputs)


def flip_left_right(context: Context, attrs: Attrs, x: Array) -> Array:
    """Columns (axis 1) the other way round; the middle one of an odd number, which MXNet leaves unwritten, as it is."""
    return np.ascontiguousarray(x[:, ::-1])


def flip_top_bottom(context: Context, attrs: Attrs, x: Array) -> Array:
    """Rows (axis 0) the other way round; the middle one as in :func:`flip_left_right`."""
    return np.ascontiguousarray(x[::-1])


def crop(context: Context, attrs: Attrs, x: Array) -> Array:
    """The part of ``width`` and ``height`` whose upper left corner is ``x``, ``y``."""
    top, left = attrs["y"], attrs["x"]
    return np.ascontiguousarray(x[..., top : top + attrs["height"], left : left + attrs["width"], :])


def _crop_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = _image(inputs[0])
    if shape is None:
        return inputs, outputs
    for size, start, length in ((shape[-3], attrs["y"], attrs["height"]), (shape[-2], attrs["x"], attrs["width"])):
        if start < 0 or length < 1 or (size is not None and start + length > size):
            raise KernelError(f"{length} from {start} on is not inside of an axis of {size}")
    return inputs, [unify((*shape[:-3], attrs["height"], attrs["width"], shape[-1]), outputs[0])]


def adjust_lighting(context: Context, attrs: Attrs, x: Array) -> Array:
    """Each colour moved along the main directions of colour by ``alpha``; one channel stays as it is."""
    if x.shape[-1] == 1:
        return x
    require(x.shape[-1] == 3, f"{x.shape[-1]} channels, expected 1 or 3")
    shift = (_COLOURS * np.array(attrs["alpha"], np.float32)).sum(axis=1, dtype=np.float32)
    moved: Array = x.astype(np.float32) + shift
    if x.dtype.kind == "f":
        return moved.astype(x.dtype)
    ends = np.iinfo(x.dtype)
    return np.clip(moved, ends.min, ends.max).astype(x.dtype)


KERNELS = with_limits(
    Limits(dtypes=NUMBERS, rank=3),
    Kernel("_image_to_tensor", to_tensor, _tensor_shapes, _float32),
    Kernel("_image_normalize", normalize, _normalize_shapes, same_dtypes),
    Kernel("_image_flip_left_right", flip_left_right, same_shapes, same_dtypes),
    Kernel("_image_flip_top_bottom", flip_top_bottom, same_shapes, same_dtypes),
    Kernel("_image_crop", crop, _crop_shapes, same_dtypes),
    Kernel("_image_adjust_lighting", adjust_lighting, same_shapes, same_dtypes),
)
