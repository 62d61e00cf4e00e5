"""The sizes of an image while it is prepared, as MXNet computes them: known from its header."""

from __future__ import annotations

from graphshare.formats.images.header import ImageHeader
from graphshare.formats.images.settings import ImageSettings


def size_before_crop(header: ImageHeader, settings: ImageSettings) -> tuple[int, int]:
    """Return height and width after the resize. The longer side is rounded down, as ``mx.image.resize_short`` does."""
    size = settings.resize
    if size is None:
        return header.height, header.width
    if isinstance(size, tuple):
        return size
    if header.height > header.width:
        return size * header.height // header.width, size
    return size, size * header.width // header.height


def size_of_result(header: ImageHeader, settings: ImageSettings) -> tuple[int, int]:
    """Return height and width of the result."""
    return settings.crop or size_before_crop(header, settings)


def crop_corner(header: ImageHeader, settings: ImageSettings) -> tuple[int, int]:
    """Return the row and column at which the crop begins, rounded down; below 0 where the image is too small for it."""
    before, after = size_before_crop(header, settings), size_of_result(header, settings)
    return (before[0] - after[0]) // 2, (before[1] - after[1]) // 2
