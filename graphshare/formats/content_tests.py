"""Tests of content beyond the first bytes: images, markup, and messages of protobuf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

from graphshare.formats.onnx.protobuf import BYTES, VARINT, WireError, read_varint

_PROLOGUE = 1 << 12  # bytes
_AFTER_TAG = (b" ", b"\t", b"\r", b"\n", b">", b"/")
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
        return text[:1] == b"<" and any(
            text[1 : len(tag) + 1].lower() == tag and text[len(tag) + 1 :][:1] in _AFTER_TAG
            for tag in tags
        )

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


def begins_with_version(start: bytes) -> bool:
    """Whether a message begins with an IR version of ONNX."""
    return len(start) > 1 and start[0] == 8 and 1 <= start[1] <= 64


def is_onnx(sample: bytes) -> bool:
    """Whether a message is an ONNX model: a version, texts about the producer, and a graph or
    operator set.
    """
    for number, (field, kind, value) in enumerate(islice(_fields(sample), 12)):
        if number == 0:
            if not begins_with_version(sample):
                return False
        elif field in (7, 8) and kind == 2:
            # A graph begins with a node (0a) or its name (12), an operator set with its domain (0a)
            # or version (10).
            return value[:1] in (b"\x0a", b"\x10", b"\x12", b"")
        elif (field in (2, 3, 4, 6) and value and not _is_text(value)) or field not in (
            2,
            3,
            4,
            5,
            6,
        ):
            return False
    return False


def is_onnx_tensor(sample: bytes) -> bool:
    """Whether a message is a TensorProto: sizes, an element type, and data or a name."""
    fields = list(islice(_fields(sample), 32))
    number = next((i for i, field in enumerate(fields) if field[:2] != (1, 0)), len(fields))
    if number + 1 >= len(fields) or fields[number][:2] != (2, 0):
        return False
    return 1 <= fields[number][2][0] <= 32 and fields[number + 1][:2] in {
        (field, 2) for field in range(4, 12)
    }


def is_saved_model(sample: bytes) -> bool:
    """Whether a message is a SavedModel or frozen graph of TensorFlow: nodes with name and
    operator.
    """
    fields = list(islice(_fields(sample), 2))
    if [field[:2] for field in fields] == [(1, 0), (2, 2)] and b"serve" in sample:
        return True
    inner = list(islice(_fields(fields[0][2]), 2)) if fields and fields[0][:2] == (1, 2) else []
    return [field[:2] for field in inner] == [(1, 2), (2, 2)] and all(
        _is_text(value) for *_, value in inner
    )


def begins_like_record(sample: bytes) -> bool:
    """Whether a file begins like a ``.pdiparams``: zeros, then a dtype."""
    size = int.from_bytes(sample[16:20], "little")
    return len(sample) > 20 and not any(sample[:16]) and 0 < size < 1 << 16 and sample[20] == 8


def is_paddle_program(sample: bytes) -> bool:
    """Whether a message is a ProgramDesc of Paddle: a block with its number, its parent's and a
    variable.
    """
    fields = list(islice(_fields(sample), 1))
    inner = list(islice(_fields(fields[0][2]), 3)) if fields and fields[0][:2] == (1, 2) else []
    return [field[:2] for field in inner] == [(1, 0), (2, 0), (3, 2)]


def is_caffemodel(sample: bytes) -> bool:
    """Whether a message is a Caffe network: a name, then inputs (3) or layers (2, later 100)."""
    fields = list(islice(_fields(sample), 3))
    return (
        len(fields) > 1
        and fields[0][:2] == (1, 2)
        and _is_text(fields[0][2])
        and fields[1][0] in (2, 3, 100)
    )


def _is_text(data: bytes) -> bool:
    return bool(data) and not any(byte < 32 and byte not in b"\t\n\r" for byte in data)
