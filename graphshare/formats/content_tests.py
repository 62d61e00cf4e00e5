"""Tests of content beyond the first bytes: images, markup, and messages of protobuf."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from graphshare.formats.onnx.protobuf import BYTES, VARINT, WireError, read_varint

_PROLOGUE = 1 << 12  # bytes
_AFTER_TAG = (b" ", b"\t", b"\r", b"\n", b">", b"/")
_PRODUCER, _MODEL_VERSION = (2, 3, 4, 5, 6), 5  # fields of a ModelProto; all but 5 are texts
_IMAGE_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*")


def is_image(start: bytes) -> bool:
    """Whether a file that begins with ``start`` (12 bytes) is an image of a known format."""
    if start.startswith(_IMAGE_STARTS):
        return start[4:8] != bytes(4)  # the length at the start of a safetensors file ends in zeros
    # A safetensors header of 19,778 bytes begins with the same two, then six NULs.
    if start[:2] == b"BM":
        return start[2:8] != bytes(6)
    netpbm = start[:1] == b"P" and start[1:2] in b"123456" and start[2:3].isspace()
    return netpbm or (start[:4] == b"RIFF" and start[8:12] == b"WEBP")


def is_markup(*tags: bytes) -> Callable[[bytes], bool]:
    """Return a test for XML or HTML whose first element, or document type, is one of ``tags``."""

    def begins(sample: bytes) -> bool:
        text = sample[:_PROLOGUE].removeprefix(b"\xef\xbb\xbf").lstrip()
        while text.startswith((b"<?", b"<!--")):  # a declaration, comments
            mark = b"?>" if text.startswith(b"<?") else b"-->"
            text = text.partition(mark)[2].lstrip()
        if not text.startswith(b"<"):
            return False
        for tag in tags:
            end = 1 + len(tag)
            if text[1:end].lower() == tag and text[end : end + 1] in _AFTER_TAG:
                return True
        return False

    return begins


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, wire type and bytes of a message's first fields; the last may be cut short."""
    position = 0
    with suppress(WireError):  # the message goes on beyond these bytes, or is not one
        while position < len(message):
            tag, position = read_varint(message, position, len(message))
            kind = tag & 7
            if kind not in (VARINT, BYTES):
                return
            value, position = read_varint(message, position, len(message))
            if kind == BYTES:
                yield tag >> 3, kind, message[position : position + value]
                position += value
            else:
                # No test asks for more than 64, so one byte is enough.
                yield tag >> 3, kind, bytes([min(value, 255)])


def _list_fields(message: bytes, most: int) -> list[tuple[int, int, bytes]]:
    return list(islice(_fields(message), most))


def _list_fields_of_first(message: bytes, most: int) -> list[tuple[int, int, bytes]]:
    """Return the fields of the message in the first field, which must have number 1."""
    for number, kind, value in islice(_fields(message), 1):
        if (number, kind) == (1, BYTES):
            return _list_fields(value, most)
    return []


def _list_kinds(fields: Sequence[tuple[int, int, bytes]]) -> list[tuple[int, int]]:
    """Return number and wire type of each field."""
    return [(number, kind) for number, kind, _ in fields]


def begins_with_version(start: bytes) -> bool:
    """Whether a message begins with an IR version of ONNX."""
    return len(start) > 1 and start[0] == 8 and 1 <= start[1] <= 64


def is_onnx(sample: bytes) -> bool:
    """Whether a message is an ONNX model: a version, texts about the producer, and a graph or
    operator set.
    """
    if not begins_with_version(sample):
        return False
    for number, kind, value in islice(_fields(sample), 1, 12):
        if number in (7, 8) and kind == BYTES:
            # A graph begins with a node (0a) or its name (12), an operator set with its domain (0a)
            # or version (10).
            return value[:1] in (b"\x0a", b"\x10", b"\x12", b"")
        if number not in _PRODUCER:
            return False
        if number != _MODEL_VERSION and value and not _is_text(value):
            return False
    return False


def is_onnx_tensor(sample: bytes) -> bool:
    """Whether a message is a TensorProto: sizes, an element type, and data or a name."""
    fields = _list_fields(sample, 32)
    rank = next((i for i, kind in enumerate(_list_kinds(fields)) if kind != (1, VARINT)), None)
    if rank is None or rank + 1 >= len(fields):
        return False
    number, kind, dtype = fields[rank]
    if (number, kind) != (2, VARINT) or not 1 <= dtype[0] <= 32:
        return False
    number, kind, _ = fields[rank + 1]
    return 4 <= number < 12 and kind == BYTES


def is_saved_model(sample: bytes) -> bool:
    """Whether a message is a SavedModel or frozen graph of TensorFlow: nodes with name and
    operator.
    """
    kinds = _list_kinds(_list_fields(sample, 2))
    if kinds == [(1, VARINT), (2, BYTES)] and b"serve" in sample:
        return True
    node = _list_fields_of_first(sample, 2)
    if _list_kinds(node) != [(1, BYTES), (2, BYTES)]:
        return False
    return all(_is_text(value) for *_, value in node)


def begins_like_record(sample: bytes) -> bool:
    """Whether a file begins like a ``.pdiparams``: zeros, then a dtype."""
    size = int.from_bytes(sample[16:20], "little")
    return len(sample) > 20 and not any(sample[:16]) and 0 < size < 1 << 16 and sample[20] == 8


def is_paddle_program(sample: bytes) -> bool:
    """Whether a message is a ProgramDesc of Paddle: a block with its number, its parent's and a
    variable.
    """
    block = _list_fields_of_first(sample, 3)
    return _list_kinds(block) == [(1, VARINT), (2, VARINT), (3, BYTES)]


def is_caffemodel(sample: bytes) -> bool:
    """Whether a message is a Caffe network: a name, then inputs (3) or layers (2, later 100)."""
    fields = _list_fields(sample, 2)
    if len(fields) < 2:
        return False
    (number, kind, name), (next_number, _, _) = fields
    if (number, kind) != (1, BYTES) or not _is_text(name):
        return False
    return next_number in (2, 3, 100)


def _is_text(data: bytes) -> bool:
    return bool(data) and not any(byte < 32 and byte not in b"\t\n\r" for byte in data)
