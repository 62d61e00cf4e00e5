"""Protobuf messages field by field, as the bytes have them: also what protobuf's classes merge,
order anew or do not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import onnx

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
MODEL = onnx.ModelProto.DESCRIPTOR
Group = tuple[tuple[int, int, Any], ...]
"""Fields of a message: numbers, wire types and values, which are groups where they are messages."""


@dataclass
class Field:
    """A field of a message: its number, its wire type, and an integer, bytes or a message."""

    number: int
    wire: int
    value: Any


@dataclass
class Message:
    """A message of a type of onnx.proto, with its fields in the order of the bytes."""

    kind: Any
    fields: list[Field] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the type, as ``NodeProto``."""
        return str(self.kind.name)

    def list(self, number: int) -> list[Any]:
        """Return the values of the fields of a number."""
        return [each.value for each in self.fields if each.number == number]

    def text(self, number: int) -> str:
        """Return a text as protobuf reads it: the last of several, an empty one where there is none."""
        values = self.list(number)
        return (
            values[-1].decode("utf-8", "surrogateescape")
            if values and isinstance(values[-1], bytes)
            else ""
        )

    def set_text(self, number: int, value: str) -> None:
        """Replace the texts of a number by one, at the place of the first."""
        at = next(
            (i for i, each in enumerate(self.fields) if each.number == number), len(self.fields)
        )
        self.fields[:] = [each for each in self.fields if each.number != number]
        self.fields.insert(at, Field(number, BYTES, value.encode("utf-8", "surrogateescape")))

    def walk(self) -> Iterator[Message]:
        """Yield the message and those in it."""
        yield self
        for each in self.fields:
            if isinstance(each.value, Message):
                yield from each.value.walk()

    def copy(self) -> Message:
        """Return a message that can be changed for itself."""
        values = [
            each.value.copy() if isinstance(each.value, Message) else each.value
            for each in self.fields
        ]
        return Message(
            self.kind,
            [Field(f.number, f.wire, value) for f, value in zip(self.fields, values, strict=True)],
        )

    def group(self) -> Group:
        """Return the fields in the order of their numbers, which a writer may choose; those of one
        number keep theirs.
        """
        ordered = sorted(self.fields, key=lambda each: each.number)
        return tuple(
            [
                (f.number, f.wire, f.value.group() if isinstance(f.value, Message) else f.value)
                for f in ordered
            ]
        )

    def is_ordered(self) -> bool:
        """Whether the fields of this message and of those in it are in the order of their numbers."""
        numbers = [[each.number for each in one.fields] for one in self.walk()]
        return all(each == sorted(each) for each in numbers)


def parse(data: bytes, kind: Any = MODEL) -> Message:
    """Return a message from its bytes. Raises ValueError where they are not those of one."""
    message, at = Message(kind), 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == VARINT:
            value, at = _read_varint(data, at)
        elif wire == BYTES:
            size, at = _read_varint(data, at)
            value, at = _take(data, at, size)
            known = kind.fields_by_number.get(number)
            if known is not None and known.message_type is not None:
                value = parse(value, known.message_type)
        elif wire in _SIZES:
            value, at = _take(data, at, _SIZES[wire])
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        message.fields.append(Field(number, wire, value))
    return message


def encode(message: Message) -> bytes:
    """Return the bytes of a message."""
    parts = []
    for each in message.fields:
        value: Any = encode(each.value) if isinstance(each.value, Message) else each.value
        parts.append(_encode_varint(each.number << 3 | each.wire))
        if each.wire == VARINT:
            parts.append(_encode_varint(value))
        else:
            parts += [_encode_varint(len(value)), value] if each.wire == BYTES else [value]
    return b"".join(parts)


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise ValueError(f"{size} bytes are missing at byte {at}")
    return data[at : at + size], at + size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = _take(data, at, 1)[0][0]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def _encode_varint(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
