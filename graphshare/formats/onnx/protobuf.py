"""Protocol buffers, as far as ONNX needs them: fields are read in place, messages nested by length.

Fields are varints, fixed 32-bit floats and bytes. Every length is checked against its message's end
before use. A message to write is a list of pieces, so tensors are read only when written.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain, groupby, repeat
from typing import Protocol, cast

from graphshare.files.byte_source import BLOCK, SourceBytes

# Bytes of a piece that is joined with others, and of the joined pieces
_LITTLE, _JOINED = 1 << 12, 1 << 18
Data = bytes | SourceBytes
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED32: 4, FIXED64: 8}  # bytes
_MASK64 = (1 << 64) - 1
Field = tuple[int, int, int, int, int]
"""Number, wire type, begin of the tag, begin of the value and end; a varint's value is its bytes."""


class Blob(Protocol):
    """``size`` bytes, read in pieces on demand."""

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
        self._append(_tag(field, VARINT) + encode_varint(value & 0xFFFFFFFFFFFFFFFF))

    def add_float(self, field: int, value: float) -> None:
        """Add a float32; numbers beyond its range become infinite."""
        self._append(_tag(field, FIXED32) + pack_float(value))

    def add_bytes(self, field: int, value: bytes) -> None:
        self._append(encode_field(field, value))

    def add_text(self, field: int, value: str) -> None:
        """Add a text, unless empty.

        Lone surrogates have no bytes in UTF-8 and are written as ``\\udc80``.
        """
        if value:
            self.add_bytes(field, value.encode("utf-8", "backslashreplace"))

    def add_texts(self, field: int, values: Iterable[str]) -> None:
        """Add each text, empty ones too."""
        for value in values:
            self.add_bytes(field, value.encode("utf-8", "backslashreplace"))

    def add_data(self, field: int, data: Blob) -> None:
        """Add the bytes of a tensor, read when the message is written."""
        self._append(_tag(field, BYTES) + encode_varint(data.size))
        self._pieces.append(data)
        self.size += data.size

    def add_encoded(self, data: Blob) -> None:
        """Add encoded fields, tags included."""
        self._pieces.append(data)
        self.size += data.size

    def add_message(self, field: int, message: Message) -> None:
        self._append(_tag(field, BYTES) + encode_varint(message.size))
        self._pieces += message._pieces
        self.size += message.size

    def add_list(self, field: int, values: Iterable[bytes | Blob | Message]) -> None:
        """Add each value; bytes, one per node of a graph, are joined."""
        tag = _tag(field, BYTES)
        for kind, run in groupby(values, type):
            if kind is bytes:
                pieces = cast("list[bytes]", list(run))
                joined = BytesIO()  # bytes.join takes 80 bytes for each piece
                joined.writelines(
                    chain.from_iterable(
                        zip(repeat(tag), map(_SIZES.__getitem__, map(len, pieces)), pieces)
                    )
                )
                self._append(joined.getvalue())
                continue
            for value in run:
                if isinstance(value, Message):
                    self.add_message(field, value)
                elif not isinstance(value, bytes):
                    self.add_data(field, value)

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes in order; small pieces, one per name of a graph, are joined."""
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
    """Return a non-negative number in groups of seven bits, the lowest first."""
    if value < 0x80:
        return _SMALL[value]
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


class _Sizes(dict[int, bytes]):
    """Cached :func:`encode_varint`: many messages have the same size."""

    def __missing__(self, size: int) -> bytes:
        encoded = self[size] = encode_varint(size)
        return encoded


_SIZES = _Sizes()
LENGTHS = [chr(length) for length in range(0x80)]
"""One-byte lengths as characters."""
_SHORT_TAGS = [chr(number << 3 | BYTES) for number in range(0x10)]


def encode_field(field: int, value: bytes) -> bytes:
    """Return a field of bytes, with its tag."""
    return _tag(field, BYTES) + encode_varint(len(value)) + value


def encode_name(field: int, name: str) -> bytes:
    """Return the field of a name, whose number is less than 16."""
    if len(name) < 0x80 and name.isascii():
        return f"{_SHORT_TAGS[field]}{LENGTHS[len(name)]}{name}".encode()
    return encode_field(field, encode_text(name))


def pack_float(value: float) -> bytes:
    """Return a number as a float32's four bytes."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _tag(field: int, kind: int) -> bytes:
    tag = field << 3 | kind
    return _SMALL[tag] if tag < 0x80 else encode_varint(tag)  # the usual case, without a call


class WireError(ValueError):
    """The fault of a message at byte ``position``."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def read_varint(data: Data, position: int, end: int) -> tuple[int, int]:
    """Return the number at ``position`` and its end.

    Raises WireError if it is cut off or longer than 10 bytes.
    """
    value = shift = 0
    for place in range(position, min(position + 10, end)):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            # Ten bytes have 70 bits; protobuf keeps the lowest 64.
            return value & _MASK64, place + 1
        shift += 7
    if end - position < 10:
        raise WireError("a number is cut off", position)
    raise WireError("a number has more than 10 bytes", position)


def once(*numbers: int) -> int:
    """Return the fields that a message has at most once, for :func:`scan`."""
    return sum(1 << number for number in numbers)


def scan(data: Data, position: int, end: int, single: int = 0) -> Iterator[Field]:
    """Yield the fields of the message from ``position`` to ``end``.

    ``single`` fields occur at most once: protocol buffers take the last of several, and join
    messages, so two programs could see different values.

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
            # 128 lets read_varint raise the error for a message that ends here.
            length = data[position] if position < end else 128
            if length < 128:  # the usual case, without a call
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
        elif kind in _FIXED:
            position += _FIXED[kind]
            if position > end:
                raise WireError(f"field {number} is cut off", begin)
        else:
            raise WireError(f"field {number} has the unknown wire type {kind}", begin)
        yield number, kind, begin, value, position


def scan_runs(data: Data, position: int, end: int, single: int = 0) -> Iterator[list[Field]]:
    """Yield the fields of :func:`scan` in lists of consecutive fields with one number and wire type.

    A graph has such fields for each node, and loops over lists take half the time of a generator.
    Lists also end with a block read from a file; the next one may have the same number.

    Raises:
        WireError: as :func:`scan`.
    """
    seen = 0
    while position < end:
        block, base = (
            (data, 0)
            if isinstance(data, bytes)
            else (data[position : min(position + BLOCK, end)], position)
        )
        run = _scan_run(block, base, position, end) or [next(scan(data, position, end))]
        number, _, begin, _, _ = run[0]
        if single >> number & 1:
            if seen >> number & 1 or len(run) > 1:
                again = begin if seen >> number & 1 else run[1][2]
                raise WireError(f"field {number} occurs twice in a message that has it once", again)
            seen |= 1 << number
        yield run
        position = run[-1][4]


def _scan_run(block: bytes, base: int, position: int, end: int) -> list[Field]:
    """Return the leading fields that are short bytes and share one number below 16.

    ``block`` are the bytes from ``base`` on; fields beyond it, or that :func:`scan` refuses, are
    omitted.
    """
    at, last, begin = position - base, end - base, position
    tag, run = block[at], list[Field]()
    number = tag >> 3
    if tag & 7 != BYTES or not 0 < number < 16:
        return run
    with contextlib.suppress(IndexError):  # the end of the block
        while at < last and block[at] == tag:
            length, value = block[at + 1], at + 2
            if length > 127:
                length, value = length + (block[value] << 7) - 128, value + 1
                if block[at + 2] > 127:
                    break
            at = value + length
            if at > last:
                break
            stop = at + base
            run.append((number, BYTES, begin, value + base, stop))
            begin = stop
    return run


def expect(field: Field, kind: int, what: str) -> None:
    """Raise WireError unless a field has the wire type of ``what``."""
    if field[1] != kind:
        raise WireError(f"{what} has the wire type {field[1]}, expected {kind}", field[2])


def text_at(data: Data, field: Field) -> str:
    """Return a field's text; bytes that are not UTF-8 become lone surrogates (see :func:`encode_text`)."""
    _, kind, _, start, end = field
    if kind != BYTES:
        expect(field, BYTES, "a text")
    return data[start:end].decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """Return the inverse of :func:`text_at`; surrogates of no byte are encoded as if UTF-8 allowed them."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def integer_at(data: Data, field: Field) -> int:
    """Return a field's signed integer."""
    expect(field, VARINT, "an integer")
    if field[4] - field[3] == 1:  # the usual case, without a call
        return data[field[3]]
    return as_signed(read_varint(data, field[3], field[4])[0])


def enum_at(data: Data, field: Field) -> int:
    """Read a field as protocol buffers read an enum or an int32: the lowest 32 bits, signed."""
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
