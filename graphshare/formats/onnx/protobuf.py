"""Protocol buffers, as much as ONNX needs: fields of varints, fixed 32-bit floats and bytes, nested by length.

A message is a list of pieces with its size, so that a tensor's bytes are read only when they are written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Protocol

_VARINT, _BYTES, _FLOAT = 0, 2, 5
_LITTLE, _JOINED = 1 << 12, 1 << 18  # bytes of a piece that is joined with others, and of what is joined


class Blob(Protocol):
    """``size`` bytes, read in pieces when they are wanted."""

    @property
    def size(self) -> int: ...
    def pieces(self) -> Iterable[bytes | memoryview]: ...


class Message:
    """A message under construction; ``size`` counts its bytes so far."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[bytes | Blob] = []

    def add_integer(self, field: int, value: int) -> None:
        """Add an integer; a negative one is written as 64 bits."""
        self._append(_tag(field, _VARINT) + encode_varint(value & 0xFFFFFFFFFFFFFFFF))

    def add_float(self, field: int, value: float) -> None:
        """Add a float32. Numbers beyond its range become infinite."""
        self._append(_tag(field, _FLOAT) + pack_float(value))

    def add_bytes(self, field: int, value: bytes) -> None:
        """Add bytes."""
        self._append(_tag(field, _BYTES) + encode_varint(len(value)) + value)

    def add_text(self, field: int, value: str) -> None:
        """Add a text; nothing for an empty one. Lone surrogates, which UTF-8 has no bytes for, are written as ``\\udc80``."""
        if value:
            self.add_bytes(field, value.encode("utf-8", "backslashreplace"))

    def add_texts(self, field: int, values: Iterable[str]) -> None:
        """Add each text, empty ones too."""
        for value in values:
            self.add_bytes(field, value.encode("utf-8", "backslashreplace"))

    def add_data(self, field: int, data: Blob) -> None:
        """Add the bytes of a tensor, which are read when the message is written."""
        self._append(_tag(field, _BYTES) + encode_varint(data.size))
        self._pieces.append(data)
        self.size += data.size

    def add_encoded(self, data: Blob) -> None:
        """Add fields that are encoded already, tags included."""
        self._pieces.append(data)
        self.size += data.size

    def add_message(self, field: int, message: Message) -> None:
        """Add a message that is complete."""
        self._append(_tag(field, _BYTES) + encode_varint(message.size))
        self._pieces += message._pieces
        self.size += message.size

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the message in order, small pieces together: a graph has one for each name."""
        small: list[bytes | memoryview] = []
        size = 0
        for piece in self._pieces:
            if isinstance(piece, bytes):
                small.append(piece)
                size += len(piece)
            elif piece.size <= _LITTLE:
                small += piece.pieces()
                size += piece.size
            else:
                yield b"".join(small)
                small, size = [], 0
                yield from piece.pieces()
            if size > _JOINED:
                yield b"".join(small)
                small, size = [], 0
        yield b"".join(small)

    def _append(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size += len(piece)


_SMALL = [bytes([value]) for value in range(0x80)]


def encode_varint(value: int) -> bytes:
    """Return a number from 0 on in groups of seven bits, the lowest first."""
    if value < 0x80:
        return _SMALL[value]
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def pack_float(value: float) -> bytes:
    """Return a number as the four bytes of a float32."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _tag(field: int, kind: int) -> bytes:
    tag = field << 3 | kind
    return _SMALL[tag] if tag < 0x80 else encode_varint(tag)  # as nearly always, and a call takes time
