"""Pixels as arrays: decode, turn upright, resize, crop, normalize, stack.

``resize_as_mxnet`` is bilinear like ``mx.image.imresize`` and OpenCV's ``resize``: all sizes are
interpolated between the four nearest neighbours, in fixed-point numbers. Pillow's filters average
all covered pixels when shrinking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphshare.errors import Fault, InputError
from graphshare.formats.images.header import TURNED_BY_PILLOW, ImageHeader, open_image
from graphshare.formats.images.settings import (
    COLORS,
    ImageSettings,
    crop_corner,
    size_before_crop,
    size_of_result,
)

Pixels = NDArray[np.uint8]
_COEFFICIENT_BITS = 11
_ONE = np.float32(1 << _COEFFICIENT_BITS)
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""Pillow's operation that turns an image of each EXIF orientation upright."""


def read_batch(headers: Sequence[ImageHeader], settings: ImageSettings) -> NDArray[np.float32]:
    """Return the images as one float32 array, (N, C, H, W) or (N, H, W, C); all give the same size.

    Raises:
        InputError: files that are damaged or have changed; all are listed.
    """
    height, width = size_of_result(headers[0], settings)
    channels = COLORS[settings.color]
    batch = np.empty((len(headers), height, width, channels), np.float32)
    faults: list[Fault] = []
    for number, header in enumerate(headers):
        try:
            batch[number] = normalize(
                _cut(_read_pixels(header, settings), header, settings), settings
            )
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    return np.ascontiguousarray(batch.transpose(0, 3, 1, 2)) if settings.layout == "NCHW" else batch


def normalize(pixels: Pixels, settings: ImageSettings) -> NDArray[np.float32]:
    """Return ``(pixel - mean) * scale / std`` of RGB pixels (H, W, C), with reordered channels."""
    result = pixels.astype(np.float32)
    if any(settings.mean):
        result -= np.asarray(settings.mean, np.float32)
    if settings.scale != 1:
        result *= np.float32(settings.scale)
    if any(number != 1 for number in settings.std):
        result /= np.asarray(settings.std, np.float32)
    return result[..., ::-1] if settings.color == "bgr" else result


def resize_as_mxnet(pixels: Pixels, height: int, width: int) -> Pixels:
    """Resize pixels (H, W, C), bit for bit as ``mx.image.imresize(..., interp=1)``."""
    rows, columns = pixels.shape[:2]
    if (rows, columns) == (height, width):
        return pixels
    if (rows, columns) == (2 * height, 2 * width):  # OpenCV has a way of its own for this
        total = pixels.reshape(height, 2, width, 2, -1).sum((1, 3), dtype=np.int32)
        halved: Pixels = ((total + 2) >> 2).astype(np.uint8)
        return halved
    left, right, before, after = _neighbours(columns, width)
    top, bottom, above, below = _neighbours(rows, height)

    flat = pixels.reshape(rows * columns, -1)

    def interpolate_row(row: NDArray[Any]) -> NDArray[Any]:
        start = row[:, None] * columns
        across: NDArray[Any] = (
            flat.take(start + left, axis=0) * before[:, None]
            + flat.take(start + right, axis=0) * after[:, None]
        )
        return across >> 4

    # The shifts of OpenCV's second pass: 22 bits of weights go in steps of 4, 16 and 2.
    down = (above[:, None, None] * interpolate_row(top) >> 16) + (
        below[:, None, None] * interpolate_row(bottom) >> 16
    )
    result: Pixels = ((down + 2) >> 2).astype(np.uint8)
    return result


def _neighbours(size: int, target: int) -> tuple[NDArray[Any], ...]:
    """Return each position's two neighbours along an axis, and their weights (sum ``1 << 11``)."""
    position = ((np.arange(target) + 0.5) * (size / target) - 0.5).astype(np.float32)
    first = np.floor(position).astype(np.int64)
    fraction = position - first.astype(np.float32)
    # Beyond an edge both neighbours are the pixel at it. OpenCV drops the fraction there, but in
    # rows only: in columns the two products are rounded apart.
    second = np.clip(first + 1, 0, size - 1)
    weights = (np.rint(part * _ONE).astype(np.int32) for part in (1 - fraction, fraction))
    return np.maximum(first, 0), second, *weights


def _read_pixels(header: ImageHeader, settings: ImageSettings) -> Pixels:
    """Return the pixels (H, W, C) of a file, upright and resized, in RGB or gray."""
    from PIL import Image  # an optional package

    height, width = size_before_crop(header, settings)
    with open_image(header.path) as image:
        mode = "L" if settings.color == "gray" else "RGB"
        image.draft(mode, image.size)  # a JPEG decodes to gray by itself, as it does for OpenCV
        decoded: Image.Image = image
        if decoded.mode.startswith("I;16"):
            # Pillow would clip 16 bits at 255; MXNet's OpenCV keeps the high byte.
            decoded = Image.fromarray((np.asarray(decoded) >> 8).astype(np.uint8))
        decoded = decoded.convert(mode)
        if header.is_turned and image.format not in TURNED_BY_PILLOW:
            decoded = decoded.transpose(Image.Transpose[_TURNS[header.orientation]])
        if (decoded.height, decoded.width) != (header.height, header.width):
            raise InputError(Fault("changed while it was being read", where=header.path))
        if settings.interpolation != "mxnet":
            decoded = decoded.resize(
                (width, height), Image.Resampling[settings.interpolation.upper()]
            )
        pixels = np.asarray(decoded)
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    return resize_as_mxnet(pixels, height, width) if settings.interpolation == "mxnet" else pixels


def _cut(pixels: Pixels, header: ImageHeader, settings: ImageSettings) -> Pixels:
    top, left = crop_corner(header, settings)
    height, width = size_of_result(header, settings)
    return pixels[top : top + height, left : left + width]
