"""Read protocol buffers as they are on the wire: where each field of a message begins and ends, without copying it.

Every length is compared with the end of its message before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from graphshare.files.byte_source import SourceBytes

Data = bytes | SourceBytes
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MASK64 = (1 << 64) - 1

Field = tuple[int, int, int, int, int]
"""Number, wire type, begin of the tag, begin of the value and end; the value of a varint begins and ends as its bytes do."""


class WireError(ValueError):
    """What is wrong with a message at byte ``position``."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def read_varint(data: Data, position: int, end: int) -> tuple[int, int]:
    """Return the number at ``position`` and where it ends. Raises WireError for one that is cut off or longer than 10 bytes."""
    value = shift = 0
    for place in range(position, min(position + 10, end)):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MASK64, place + 1
        shift += 7
    if end - position < 10:
        raise WireError("a number is cut off", position)
    raise WireError("a number has more than 10 bytes", position)


def once(*numbers: int) -> int:
    """Return the fields that a message has at most once, as :func:`scan` takes them."""
    return sum(1 << number for number in numbers)


def scan(data: Data, position: int, end: int, single: int = 0) -> Iterator[Field]:
    """Yield the fields of the message from ``position`` to ``end``.

    ``single`` are fields that occur at most once. Protocol buffers take the last of several, and join those that are messages:
    what reads one of them may see another value than what computes the model, so several are refused.

    Raises:
        WireError: it is not a message, or a single field occurs again.
    """
    seen = 0
    while position < end:
        begin = position
        byte = data[position]
        if byte < 128:
            tag, position = byte, position + 1
        else:
            tag, position = read_varint(data, position, end)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise WireError(f"a field has the number {number}", begin)
        if single >> number & 1:
            if seen >> number & 1:
                raise WireError(f"field {number} occurs twice in a message that has it once", begin)
            seen |= 1 << number
        value = position
        if kind == BYTES:
            length = data[position] if position < end else 128
            if length < 128:  # as nearly always, and a call takes time
                value = position + 1
            else:
                length, value = read_varint(data, position, end)
            if length > end - value:
                left = f"only {end - value:,} are left: the file is cut short or damaged"
                raise WireError(f"field {number} has {length:,} bytes and {left}", begin)
            position = value + length
        elif kind == VARINT:
            if position < end and data[position] < 128:
                position += 1
            else:
                _, position = read_varint(data, position, end)
        elif kind in (FIXED32, FIXED64):
            position += 4 if kind == FIXED32 else 8
            if position > end:
                raise WireError(f"field {number} is cut off", begin)
        else:
            raise WireError(f"field {number} has the unknown wire type {kind}", begin)
        yield number, kind, begin, value, position


def expect(field: Field, kind: int, what: str) -> None:
    """Raise WireError unless a field has the wire type of ``what``."""
    if field[1] != kind:
        raise WireError(f"{what} has the wire type {field[1]}, expected {kind}", field[2])


def text_at(data: Data, field: Field) -> str:
    """Return a field's text; bytes that are not UTF-8 become lone surrogates, which :func:`encode_text` turns back."""
    _, kind, _, start, end = field
    if kind != BYTES:
        expect(field, BYTES, "a text")
    return data[start:end].decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """Return the inverse of :func:`text_at`; surrogates of no byte are written as UTF-8 would, if it could."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def integer_at(data: Data, field: Field) -> int:
    """Return a field's signed integer."""
    expect(field, VARINT, "an integer")
    if field[4] - field[3] == 1:  # as nearly always, and a call takes time
        return data[field[3]]
    return as_signed(read_varint(data, field[3], field[4])[0])


def enum_at(data: Data, field: Field) -> int:
    """Return a field's number as protocol buffers read an enum or an int32: the lowest 32 bits, signed."""
    value = integer_at(data, field) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def as_signed(value: int) -> int:
    """Return 64 bits as a signed integer."""
    return value - (1 << 64) if value >> 63 else value


def integers_at(data: Data, field: Field) -> Iterator[int]:
    """Yield the signed integers of a repeated field, packed or not."""
    if field[1] != BYTES:
        yield integer_at(data, field)
        return
    position = field[3]
    while position < field[4]:
        value, position = read_varint(data, position, field[4])
        yield as_signed(value)


def floats_at(data: Data, field: Field) -> tuple[float, ...]:
    """Return the float32 numbers of a repeated field, packed or not."""
    if field[1] == FIXED32:
        return tuple(struct.unpack("<f", data[field[3] : field[4]]))
    expect(field, BYTES, "a list of floats")
    size = field[4] - field[3]
    if size % 4:
        raise WireError(f"{size:,} bytes of floats are not a multiple of 4", field[2])
    return struct.unpack(f"<{size // 4}f", data[field[3] : field[4]])
