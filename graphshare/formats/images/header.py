"""Read the header of an image file; no pixel is decoded.

Files are recognized by their first bytes. Pillow reads only ``FORMATS``: others start programs or
are rare.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from graphshare.errors import Fault, GraphshareError, InputError, RefusedError, install_command
from graphshare.files.byte_source import ByteSource, SourceFile
from graphshare.files.open_source import open_source
from graphshare.text.format import format_dims

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
MAX_PIXELS = 89_478_485  # Pillow's own limit; it only warns there
TURNED_BY_PILLOW = ("TIFF",)
_ORIENTATION = 0x0112  # EXIF tag
_SIDEWAYS = 5  # from this orientation on height and width change places


class ImageHeader(msgspec.Struct, frozen=True):
    """An image file: height and width when upright, and its EXIF orientation, from 1 to 8."""

    path: str
    height: int
    width: int
    orientation: int

    @property
    def is_turned(self) -> bool:
        """Whether the pixels must be turned or mirrored to be upright."""
        return self.orientation != 1


def read_start(path: str, *, endings: tuple[str, ...] = ENDINGS) -> bytes:
    """Return the first bytes of a file, for ``is_image``. Raises InputError when it cannot be
    read.
    """
    with open_source(path, endings=endings) as source:
        return source.read_at(0, min(12, source.size))


def read_header(path: str) -> ImageHeader:
    """Return the header of an image file.

    Raises:
        InputError: the file cannot be read, is damaged, or has too many pixels.
        RefusedError: Pillow is not installed.
    """
    with open_image(path) as image:
        # Pillow decodes a whole PNG to look for some
        has_exif = image.format != "PNG" or "exif" in image.info
        orientation = image.getexif().get(_ORIENTATION) if has_exif else None
        turn = orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1
        if image.format in TURNED_BY_PILLOW and turn != 1:
            # Pillow 10 (not 13) states a TIFF's upright size only after decoding it.
            image.load()
        width, height = image.size
        # graphshare turns the others itself.
        if turn >= _SIDEWAYS and image.format not in TURNED_BY_PILLOW:
            width, height = height, width
    return ImageHeader(path, height, width, turn)


@contextmanager
def open_image(path: str) -> Iterator[Image]:
    """Open an image file with Pillow, for a ``with`` block that decodes its pixels. Raises as
    :func:`read_header`.
    """
    try:
        from PIL import Image  # an optional package, and slow to import
    except ImportError:
        hint = f"{install_command('images')}, or prepare the numbers yourself and feed them as an .npy file"
        raise RefusedError(
            Fault(
                "is an image, and Pillow, which reads images, is not installed",
                where=path,
                hint=hint,
            )
        ) from None
    with open_source(path, endings=ENDINGS) as source, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on damaged metadata, and on sizes (checked here)
        try:
            with Image.open(io.BufferedReader(SourceFile(source)), formats=FORMATS) as image:
                _check_size(image, source)
                yield image
        except (GraphshareError, MemoryError):
            raise
        except Image.DecompressionBombError as error:
            raise _refuse_size(path, "too many") from error
        except Exception as error:  # of a damaged file Pillow raises almost any exception
            raise InputError(
                Fault(f"cannot be read as an image: {_describe(error)}", where=path, hint=_HINT)
            ) from error


_HINT = "it may be damaged or cut off: open it in a viewer, or save it again"


def _check_size(image: Image, source: ByteSource) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise _refuse_size(source.name, format_dims((width, height)))
    if not width * height:
        raise InputError(Fault("has no pixels", where=source.name))
    if image.mode in ("I", "F"):
        hint = "save it with 8 or 16 bits for each channel, or feed the numbers as an .npy file"
        raise InputError(Fault("has pixels of 32 bits", where=source.name, hint=hint))


def _refuse_size(path: str, pixels: str) -> InputError:
    message = f"has {pixels} pixels; graphshare reads up to {MAX_PIXELS:,}"
    return InputError(Fault(message, where=path, hint="make it smaller first"))


def _describe(error: Exception) -> str:
    text = str(error).partition(" <")[0].strip()  # Pillow names the file object
    return (
        "no format is recognized"
        if type(error).__name__ == "UnidentifiedImageError"
        else text or type(error).__name__
    )
