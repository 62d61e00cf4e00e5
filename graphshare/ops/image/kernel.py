"""Images (H, W, C) or (N, H, W, C), their conversion to tensors (C, H, W), and normalization."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.conversion import convert, to_floating
from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dims,
    Forward,
    Kernel,
    KernelError,
    Shape,
    Shapes,
)
from graphshare.ops.limits import NUMBERS, Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unary.kernel import factor_vjp
from graphshare.ops.unification import dtype_rule, output_rule, same_dtypes, same_shapes
from graphshare.text.format import format_count, format_shape

# Principal colour components of photographs times their spread, red, green, blue by rows (AlexNet).
_COLOURS = np.array(
    [
        [55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009],
        [55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140],
        [55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203],
    ],
    np.float32,
)


def to_tensor(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the image with channels first, as float32 from 0 to 1."""
    return np.asarray(
        np.ascontiguousarray(np.moveaxis(x, -1, -3)).astype(np.float32) / np.float32(255)
    )


def _tensor_shape(attrs: Attrs, image: Dims) -> Shape:
    _check_image(image)
    return (*image[:-3], image[-1], *image[-3:-1])


def _check_image(shape: Shape) -> None:
    if shape is not None and len(shape) not in (3, 4):
        raise KernelError(
            f"{format_shape(shape)} has {format_count(len(shape), 'axis')}, expected 3 for an image or 4 for a batch"
        )


def normalize(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return (x - mean) / std by channel of (C, H, W) or (N, C, H, W); one number serves all.

    Integers are computed in float32 and truncated; float16 is rounded after both steps.
    """
    channels, dtype = x.shape[-3], x.dtype
    wide = to_floating(x)
    with refuse_invalid_call(), np.errstate(all="ignore"):
        difference = wide - by_channel(attrs["mean"], channels)
        # MXNet stores the difference before it divides.
        if dtype == np.float16:
            difference = difference.astype(dtype).astype(np.float32)
        return convert(difference / by_channel(attrs["std"], channels), dtype)


def by_channel(values: Sequence[float], channels: int) -> Array:
    """Return one number per channel: ``(channels, 1, 1)``."""
    numbers = np.array(values, np.float32)
    return (np.resize(numbers, channels) if len(numbers) == 1 else numbers[:channels]).reshape(
        -1, 1, 1
    )


def _infer_normalize_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = inputs[0]
    _check_image(shape)
    if shape is not None:
        _check_channels(shape, -3)
        channels = shape[-3]
        for key in ("mean", "std"):
            if channels is not None and len(attrs[key]) not in (1, channels):
                count = format_count(len(attrs[key]), "number")
                raise KernelError(f"{key} has {count} for {format_count(channels, 'channel')}")
    return same_shapes(attrs, inputs, outputs)


def _infer_image_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """``(H, W, C)`` has one or three channels, before and after."""
    shape = inputs[0]
    if shape is not None:
        require(
            len(shape) == 3,
            f"{format_shape(shape)} has {format_count(len(shape), 'axis')}, expected 3 for an image",
        )
        _check_channels(shape, -1)
    return same_shapes(attrs, inputs, outputs)


def _check_channels(shape: Dims, axis: int) -> None:
    channels = shape[axis]
    if channels is not None and channels not in (1, 3):
        raise KernelError(
            f"{format_shape(shape)} has {format_count(channels, 'channel')}, expected 1 or 3"
        )


def _flip(axis: int) -> Forward:
    """Reverse rows (0) or columns (1); MXNet leaves the middle one uninitialised."""
    return lambda context, attrs, x: np.ascontiguousarray(np.flip(x, axis))


def crop(context: Context, attrs: Attrs, x: Array) -> Array:
    """Crop to ``width`` and ``height`` from the upper left corner ``x``, ``y``."""
    top, left = attrs["y"], attrs["x"]
    return np.ascontiguousarray(
        x[..., top : top + attrs["height"], left : left + attrs["width"], :]
    )


def _crop_shape(attrs: Attrs, shape: Dims) -> Shape:
    _check_image(shape)
    _check_channels(shape, -1)
    for size, start, length in (
        (shape[-3], attrs["y"], attrs["height"]),
        (shape[-2], attrs["x"], attrs["width"]),
    ):
        fits_axis = size is None or start + length <= size
        require(
            start >= 0 and length >= 1 and fits_axis,
            f"a part of size {length} from {start} is not inside an axis of size {size}",
        )
    return (*shape[:-3], attrs["height"], attrs["width"], shape[-1])


def compute_shift(attrs: Attrs) -> Array:
    """Return the numbers that ``alpha`` adds to red, green and blue.

    Raises:
        KernelError: ``alpha`` does not have three numbers.
    """
    require(len(attrs["alpha"]) == 3, f"alpha is {attrs['alpha']}, expected three numbers")
    return np.asarray(
        (_COLOURS * np.array(attrs["alpha"], np.float32)).sum(axis=1, dtype=np.float32)
    )


def adjust_lighting(context: Context, attrs: Attrs, x: Array) -> Array:
    """Brighten along the principal colours; a single channel is unchanged."""
    if x.shape[-1] == 1:
        return x
    bright: Array = x.astype(np.float32) + compute_shift(attrs)
    if x.dtype.kind == "f":
        return bright.astype(x.dtype)
    ends = np.iinfo(x.dtype)
    return np.clip(bright, ends.min, ends.max).astype(x.dtype)


KERNELS = with_limits(
    Limits(dtypes=NUMBERS, rank=3),
    Kernel("_image_to_tensor", to_tensor, output_rule(_tensor_shape), dtype_rule("float32")),
    Kernel("_image_normalize", normalize, _infer_normalize_shapes, same_dtypes),
    Kernel("_image_flip_left_right", _flip(1), _infer_image_shapes, same_dtypes),
    Kernel("_image_flip_top_bottom", _flip(0), _infer_image_shapes, same_dtypes),
    Kernel("_image_crop", crop, output_rule(_crop_shape), same_dtypes),
    Kernel("_image_adjust_lighting", adjust_lighting, _infer_image_shapes, same_dtypes),
)


def to_tensor_gradient(entry: TapeEntry, dy: Array) -> Array:
    """As in MXNet, reshape ``dy`` in memory order, neither divided by 255 nor transposed."""
    (x,) = entry.inputs
    result: Array = np.ascontiguousarray(dy).reshape(x.shape).astype(x.dtype, copy=False)
    return result


def normalize_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Divide by the channel's standard deviation."""
    result: Array = dy / by_channel(entry.attrs["std"], dy.shape[-3])
    return result.astype(dy.dtype, copy=False)


GRADIENTS = (
    Gradient("_image_to_tensor", to_tensor_gradient, reads_outputs=False),
    Gradient("_image_normalize", normalize_gradient, reads_inputs=False, reads_outputs=False),
    # The lighting shift does not depend on the image. MXNet does not flip a flip's gradient.
    *(
        Gradient(name, factor_vjp(1.0), reads_inputs=False, reads_outputs=False)
        for name in ("_image_adjust_lighting", "_image_flip_left_right", "_image_flip_top_bottom")
    ),
    Gradient("_image_crop", permutation_vjp("_image_crop"), reads_outputs=False),
)
