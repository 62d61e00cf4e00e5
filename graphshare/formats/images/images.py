"""Image files as an input's value: checked first, decoded when the array is wanted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.errors import Fault, GraphshareError, InputError, RefusedError
from graphshare.files.paths import base_name, is_folder, is_listed_file, join, list_names
from graphshare.formats.content_tests import is_image
from graphshare.formats.images.header import ENDINGS, ImageHeader, read_header, read_start
from graphshare.formats.images.settings import (
    COLORS,
    ImageSettings,
    crop_corner,
    size_before_crop,
    size_of_result,
)
from graphshare.formats.wrong_file import refuse_file
from graphshare.resources import describe_excess
from graphshare.text.format import (
    format_bytes,
    format_count,
    format_dims,
    format_names,
    format_shape,
)
from graphshare.text.summary import ShortRepr

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BATCH_BYTES = 1 << 31
MAX_RESIZED = 1 << 24  # pixels
_LISTED = 4
_SKIPPED = "not images, and left out of {}: {}"


class Images(ShortRepr):
    """Images that are prepared alike: a sequence, and a float32 array (N, C, H, W) or (N, H, W, C).

    ``numpy.asarray(images)`` decodes them; ``images[:8]`` are the first eight. ``notes`` are
    decisions made for the user.
    """

    __slots__ = ("_headers", "notes", "settings")

    def __init__(
        self, headers: Sequence[ImageHeader], settings: ImageSettings, notes: Sequence[str] = ()
    ) -> None:
        self._headers = tuple(headers)
        self.settings = settings
        self.notes = tuple(notes)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(header.path for header in self._headers)

    @property
    def shape(self) -> tuple[int, ...]:
        height, width = size_of_result(self._headers[0], self.settings) if self._headers else (0, 0)
        channels = COLORS[self.settings.color]
        sides = (
            (channels, height, width)
            if self.settings.layout == "NCHW"
            else (height, width, channels)
        )
        return (len(self), *sides)

    def __len__(self) -> int:
        return len(self._headers)

    def __getitem__(self, index: int | slice) -> Images:
        # The notes are about the whole batch, not a part.
        chosen = self._headers[index]
        return Images((chosen,) if isinstance(chosen, ImageHeader) else chosen, self.settings)

    def take(self, indices: Iterable[int]) -> Images:
        """Return the images of these indices; indices may repeat."""
        return Images([self._headers[index] for index in indices], self.settings)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Raises InputError for damaged files, RefusedError for too many."""
        from graphshare.formats.images.pixels import read_batch  # start-up: numpy

        size = 4
        for length in self.shape:
            size *= length
        excess = (
            f"a batch may take {format_bytes(MAX_BATCH_BYTES)}"
            if size > MAX_BATCH_BYTES
            else describe_excess(size)
        )
        if excess:
            images = f"{format_count(len(self), 'image')} of {format_dims(self.shape[1:])}"
            message = f"{images} take {format_bytes(size)}; {excess.removeprefix('and ')}"
            hint = "compute fewer at a time with `batch=N`, or make them smaller with `resize`"
            raise RefusedError(Fault(message, hint=hint))
        array = read_batch(self._headers, self.settings)
        return array if dtype is None else array.astype(dtype, copy=False)

    def _summary(self) -> str:
        return f"{len(self)}, {format_dims(self.shape)}"


def describe_images(feeds: Mapping[str, Any]) -> list[str]:
    """Describe the images that feed inputs, and the decisions made for the user."""
    lines = []
    for name, value in feeds.items():
        if isinstance(value, Images):
            color, layout = value.settings.color, value.settings.layout
            channels = color if color == "gray" else color.upper()
            number = format_count(len(value), "image")
            lines += [
                f"{name!r} is {number} as {format_shape(value.shape)}, {channels}, {layout}",
                *value.notes,
            ]
    return lines


@contextmanager
def suggest_preparation(feeds: Mapping[str, Any]) -> Iterator[None]:
    """Add a hint to refusals at a node: the images' shape, and the options that change it."""
    try:
        yield
    except RefusedError as error:
        shapes = [
            f"{name!r} is fed as {format_shape(value.shape)}"
            for name, value in feeds.items()
            if isinstance(value, Images)
        ]
        if not shapes:
            raise
        hint = (
            f"{', '.join(shapes)}; `preset`, `resize`, `crop`, `color='gray'` and `layout` change "
            f"the shape of images"
        )
        changes = [
            fault if fault.hint or fault.node is None else msgspec.structs.replace(fault, hint=hint)
            for fault in error.faults
        ]
        raise type(error)(changes) from error


def list_image_files(feeds: Mapping[str, Any]) -> list[str]:
    """Return the files of all images that are fed."""
    return [path for value in feeds.values() if isinstance(value, Images) for path in value.paths]


def open_image_files(paths: Iterable[str], settings: ImageSettings) -> Images:
    """Open image files, and those in folders by name, as one batch.

    Raises:
        InputError: files that are missing, damaged or no images; all are listed.
        RefusedError: Pillow is not installed, or the images give different sizes.
    """
    notes = list(settings.notes)
    files: list[str] = []
    headers: list[ImageHeader] = []
    faults: list[Fault] = []
    for path in paths:
        files += _list_folder(path, notes) if is_folder(path) else [path]
    for file in files:
        try:
            if not is_image(read_start(file)):
                faults.append(
                    refuse_file(
                        file, "image", known=f"known formats are those of {', '.join(ENDINGS)}"
                    )
                )
                continue
            headers.append(read_header(file))
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    if not headers:
        raise InputError(Fault("no image was given"))
    _check_sizes(headers, settings)
    turned = [os.path.basename(header.path) for header in headers if header.is_turned]
    if turned:
        notes.append(f"turned upright by their EXIF data: {format_names(turned, _LISTED)}")
    return Images(headers, settings, notes)


def _list_folder(path: str, notes: list[str]) -> list[str]:
    """Return the images in a folder by name, without hidden files; add a note on other files.

    Raises:
        InputError: the folder cannot be read, or holds no image.
    """
    try:
        names = [
            name
            for name in list_names(path)
            if not name.startswith(".") and is_listed_file(path, name)
        ]
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror or error}", where=path)) from error
    images: list[str] = []
    others: list[str] = []
    for name in names:
        file = join(path, name)
        try:
            # A file named like an image that is not one must be reported as damaged.
            (
                images if is_image(read_start(file)) or name.lower().endswith(ENDINGS) else others
            ).append(file)
        except GraphshareError:
            images.append(file)  # opening it raises the error
    if not images:
        hint = "a folder is fed as a batch of images; give an array by the path of its file"
        raise InputError(Fault("is a folder without images", where=path, hint=hint))
    if others:
        notes.append(_SKIPPED.format(path, format_names(map(base_name, others), _LISTED)))
    return images


def _check_sizes(headers: Sequence[ImageHeader], settings: ImageSettings) -> None:
    """Refuse images too small for the crop, too large after the resize, or unlike the first in
    size.
    """
    faults: dict[str, list[Fault]] = {}
    wanted = size_of_result(headers[0], settings)
    for header in headers:
        before = size_before_crop(header, settings)
        if min(crop_corner(header, settings)) < 0:
            hint = "add `resize`, or crop less"
            message = f"is {_size(before)}, too small for a crop of {_size(wanted)}"
        elif not min(before) or (settings.resize and before[0] * before[1] > MAX_RESIZED):
            hint = ""
            message = f"would be {_size(before)} after the resize; at most {MAX_RESIZED:,} pixels are allowed"
        elif size_of_result(header, settings) != wanted:
            hint = "images in a batch must have the same size: add `resize=H,W`, or `resize=N` with `crop=N`"
            message = f"is {_size(size_of_result(header, settings))}, where {headers[0].path} is {_size(wanted)}"
        else:
            continue
        faults.setdefault(hint, []).append(Fault(message, where=header.path, hint=hint))
    if faults:
        raise RefusedError(
            [fault for hint, group in faults.items() for fault in _shorten(group, hint)]
        )


def _shorten(faults: Sequence[Fault], hint: str) -> list[Fault]:
    """Only count the later faults: a folder may hold thousands of images."""
    more = len(faults) - _LISTED
    return [
        *faults[:_LISTED],
        *(
            [Fault(f"and so on for {format_count(more, 'more image')}", hint=hint)]
            if more > 0
            else []
        ),
    ]


def _size(size: tuple[int, int]) -> str:
    """Images are written width first, shapes height first."""
    return f"{size[1]} wide, {size[0]} high"
