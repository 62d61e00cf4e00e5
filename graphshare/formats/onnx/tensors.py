"""Locate the data of tensors, in the model or in a file beside it, without reading it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from graphshare.errors import InputError
from graphshare.files.open_source import describe_file, open_source
from graphshare.files.paths import is_inside, join
from graphshare.formats.onnx.protobuf import (
    BYTES,
    Data,
    Field,
    WireError,
    enum_at,
    expect,
    integers_at,
    once,
    scan,
    text_at,
)
from graphshare.formats.onnx.stated_once import refuse_repeats
from graphshare.formats.onnx.stored import OWN_KEYS, OnnxFile, Span, TensorPlace
from graphshare.formats.params.records import MAX_RANK, element_count
from graphshare.ir.onnx import dtype_name
from graphshare.text.format import format_count
from graphshare.text.urls import is_url, leaves_folder

# fmt: off
#: Bits of one element by ONNX's number of the dtype.
_BITS = {
    1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16,
    17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2,
}
# fmt: on
SEGMENT, RAW, EXTERNAL, LOCATION, TENSOR_METADATA = 3, 9, 13, 14, 16
_FLOATS, _TEXTS, _DOUBLES, _INTEGERS = 4, 6, 10, (5, 7, 11)
_DATA = (_FLOATS, _TEXTS, RAW, _DOUBLES, *_INTEGERS)
_PIECE = 1 << 20
_SINGLE = once(2, 3, 8, RAW, 12, LOCATION)
_SPARSE_SINGLE = _PAIR_SINGLE = once(1, 2)
DATA_FIELDS = frozenset((*_DATA, EXTERNAL, LOCATION))
"""The fields of a TensorProto that contain or locate its data."""
_LARGEST = 1 << 62
_FLOATING = frozenset((1, 10, 11, 14, 15, 16, 17, 18, 19, 20, 23, 24))
_SIGNED = frozenset((3, 5, 6, 7))
_LEAST_FLOATS, _LEAST_OTHERS = 8, 16


def is_weight(shape: tuple[int, ...], code: int) -> bool:
    """Whether a tensor of a Constant or a body is a weight: at least 8 floats or 16 other elements.

    Smaller tensors are a shape, axes, a scale or a limit, with at most one float (Resize's scales)
    or two integers (pads) per axis, and tensors have fewer than 8 axes. The bound depends on the
    tensor only, so both sides of a comparison or a rewrite have the same parameters. Initializers
    of the main graph are always parameters: their authors named them to be replaceable.
    """
    return element_count(shape) >= (_LEAST_FLOATS if code in _FLOATING else _LEAST_OTHERS)


def locate_tensor(file: OnnxFile, start: int, end: int) -> TensorPlace:
    """Return shape, dtype and data place of the TensorProto at ``start``.

    Raises:
        WireError: it is malformed, or its data does not fit its shape and dtype.
    """
    data = file.data
    shape: list[int] = []
    code = number = pieces = location = 0
    first = last = end
    external: list[tuple[str, str]] = []
    for field in scan(data, start, end, _SINGLE):
        which = field[0]
        if which == 1:
            shape.extend(integers_at(data, field))
            if len(shape) > MAX_RANK:
                raise WireError(f"a tensor has more than {MAX_RANK} dimensions", field[2])
        elif which == 2:
            code = enum_at(data, field)
        elif which in _DATA:
            if which in (RAW, _TEXTS):
                expect(field, BYTES, "the data of a tensor")
            if which != number:
                first, number, pieces = (field[3] if field[1] == BYTES else field[2]), which, 0
            pieces += 1
            last = field[4]
        elif which == EXTERNAL:
            expect(field, BYTES, "a pair of texts")
            external.append(read_pair(file, field[3], field[4]))
        elif which in (SEGMENT, TENSOR_METADATA):
            refuse_repeats(data, field, "pair")
        elif which == LOCATION:
            location = enum_at(data, field)
    place = TensorPlace(tuple(shape), code, number, first, last, pieces)
    _refuse_shape(place.shape, start)
    if location == 1:
        return _locate_outside(file, place, tuple(external), start)
    if number == RAW:
        _refuse_size(place, start)
    return place


def _refuse_shape(shape: tuple[int, ...], at: int) -> None:
    if shape and min(shape) < 0:
        raise WireError(f"a tensor has the shape {shape}", at)
    if element_count(shape) > _LARGEST:
        raise WireError(f"a tensor has the shape {shape}, which no memory holds", at)


def _refuse_size(place: TensorPlace, at: int) -> None:
    stated, size = place.end - place.start, data_size(place)
    if size is not None and stated != size:
        raise WireError(
            f"a tensor has {format_count(stated, 'byte')} of data; its shape and dtype need {size:,}",
            at,
        )


def locate_sparse(file: OnnxFile, start: int, end: int) -> TensorPlace | None:
    """Return the place of the values of the SparseTensorProto at ``start``, or None.

    Raises:
        WireError: it is malformed, or has external data that programs moving models would lose.
    """
    places: dict[int, TensorPlace] = {}
    for field in scan(file.data, start, end, _SPARSE_SINGLE):
        if field[0] in (1, 2):
            expect(field, BYTES, "a part of a sparse tensor")
            places[field[0]] = locate_tensor(file, field[3], field[4])
            if places[field[0]].data == EXTERNAL:
                raise WireError(
                    "a sparse tensor has external data, which ONNX does not allow", field[2]
                )
    return places.get(1)


def data_size(place: TensorPlace) -> int | None:
    """Return the size in bytes of raw data; None for texts and unknown dtypes."""
    bits = _BITS.get(place.code)
    return None if bits is None else (element_count(place.shape) * bits + 7) // 8


def read_elements(span: Span, place: TensorPlace) -> Iterator[bytes]:
    """Yield the elements of the tensor in ``span`` in pieces, little endian, in any form of storage.

    Texts come with their lengths. Raises WireError, and InputError for external data that cannot be
    read.
    """
    if place.path:
        with open_source(place.path) as source:
            for start in range(place.start, place.end, _PIECE):
                yield source.read_at(start, min(_PIECE, place.end - start))
        return
    width = max(1, _BITS.get(place.code, 8) // 8)
    for field in scan(span.file.data, span.start, span.end):
        if field[0] in (_FLOATS, RAW, _DOUBLES):
            yield from span.file.pieces(field[3], field[4])
        elif field[0] in _INTEGERS:
            yield pack_integers(span.file.data, field, width)
        elif field[0] == _TEXTS:
            expect(field, BYTES, "a text")
            yield (field[4] - field[3]).to_bytes(8, "little")
            yield from span.file.pieces(field[3], field[4])


def pack_integers(data: Data, field: Field, width: int) -> bytes:
    """Return the integers of a field with ``width`` bytes each, little endian. Raises WireError."""
    limit = 1 << 8 * width
    return b"".join(
        [(value % limit).to_bytes(width, "little") for value in integers_at(data, field)]
    )


def has_own_key(data: Data, start: int, end: int) -> bool:
    """Whether the pair of texts at ``start`` has a key of this package, written first."""
    return data[start : min(start + 2 + len(OWN_KEYS), end)][2:] == OWN_KEYS.encode()


def find_integer_form(span: Span) -> tuple[int, bool]:
    """Return the size in bytes of a raw integer of the TensorProto in ``span``, and whether it is signed."""
    code = next(
        (
            enum_at(span.file.data, field)
            for field in scan(span.file.data, span.start, span.end)
            if field[0] == 2
        ),
        0,
    )
    return max(1, _BITS.get(code, 8) // 8), code in _SIGNED


def read_pair(file: OnnxFile, start: int, end: int) -> tuple[str, str]:
    """Return key and value of the StringStringEntryProto at ``start``. Raises WireError."""
    key = value = ""
    for field in scan(file.data, start, end, _PAIR_SINGLE):
        if field[0] in (1, 2):
            expect(field, BYTES, "a pair of texts")
            text = text_at(file.data, field)
            key, value = (text, value) if field[0] == 1 else (key, text)
    return key, value


def _locate_outside(
    file: OnnxFile, place: TensorPlace, pairs: tuple[tuple[str, str], ...], at: int
) -> TensorPlace:
    """Return the place of data in another file; that must lie in the model's directory."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise WireError("external data is described twice", at)
    location = values.get("location", "")
    path = check_location(file, location, at)
    try:
        offset, length = (
            int(values[key]) if key in values else None for key in ("offset", "length")
        )
    except ValueError:
        raise WireError(
            f"external data in {location!r} has an offset or length that is not a number", at
        ) from None
    offset = offset or 0
    size = data_size(place)
    if size is None:
        raise WireError(f"external data in {location!r} has the dtype {dtype_name(place.code)}", at)
    if length is not None and length != size:
        raise WireError(
            f"external data in {location!r} has {length:,} bytes; its shape and dtype need {size:,}",
            at,
        )
    outside = TensorPlace(place.shape, place.code, EXTERNAL, offset, offset + size, 1, path, pairs)
    if not file.seeks_data:
        return outside
    if path not in file.sizes:
        file.sizes[path] = _find_size(path, location, at)
    known = file.sizes[path]
    if offset < 0:
        raise WireError(f"external data is at byte {offset:,} of {location!r}", at)
    if known is None:
        file.missing[path] = "does not exist"
    elif offset + size > known:
        file.missing[path] = "is too short"
    return outside


def _find_size(path: str, location: str, at: int) -> int | None:
    """Return the size of a file of external data, or None if it is missing."""
    try:
        if is_url(path):
            return describe_file(path).size
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WireError(
            f"external data is in {location!r}, which cannot be read: {reason}", at
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise WireError(f"external data is in {location!r}, which is not a regular file", at)
    return status.st_size


def check_location(file: OnnxFile, location: str, at: int) -> str:
    """Return the path of external data. Raises WireError if it is outside the model's directory.

    If the model is a link, as in caches of model hubs, the directory of the real file is allowed
    too.
    """
    folder = file.folder
    # Windows' rules apply too: a file must be inside on every system or on none.
    parts = location.replace("\\", "/").split("/")
    outside = (
        not location
        or "\0" in location
        or os.path.isabs(location)
        or ".." in parts
        or ":" in parts[0]
    )
    path = os.path.join(folder, location)
    if is_url(folder):
        path = join(folder, location)
        outside = (
            outside or leaves_folder(location) or any(mark in location for mark in ("?", "#", "::"))
        )
    elif not outside and not file.is_own:
        outside = not is_inside(path, folder) and not is_inside(path, file.real_folder)
    if outside:
        raise WireError(
            f"external data is in {location!r}, which is not in the model's directory", at
        )
    return path
