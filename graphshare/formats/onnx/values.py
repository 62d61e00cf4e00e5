"""Values in an ONNX file, compared by content, not by spelling of numbers, names or documentation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from graphshare.formats.onnx.protobuf import (
    BYTES,
    FIXED32,
    Field,
    WireError,
    enum_at,
    expect,
    integer_at,
    integers_at,
    scan,
)
from graphshare.formats.onnx.stored import OnnxFile, Span, Stored, TensorPlace
from graphshare.formats.onnx.tensors import locate_tensor, pack_integers, read_elements
from graphshare.formats.onnx.types import decode_type
from graphshare.ir.graph import freeze
from graphshare.ir.onnx import dtype_name
from graphshare.ir.terms import shorten

Content = tuple[Hashable, ...]
MALFORMED = "malformed"
"""The first item of the content of a value whose bytes are malformed."""

_NAME, _FLOAT, _INT, _STRING, _TENSOR = 1, 2, 3, 4, 5
_FLOATS, _INTS, _STRINGS, _TENSORS, _DOCUMENTATION = 7, 8, 9, 10, 13
_TYPE, _TYPES, _KIND, _REFERENCE, _SPARSE, _SPARSE_TENSORS = 14, 15, 20, 21, 22, 23
_KINDS = {
    2: 1,
    3: 2,
    4: 3,
    5: 4,
    6: 5,
    7: 6,
    8: 7,
    9: 8,
    10: 9,
    11: 10,
    14: 13,
    15: 14,
    22: 11,
    23: 12,
}
"""ONNX's attribute type number by the field of the value; files of 2017 do not state it."""


class StoredValue:
    """The content of a message, compared by value and shown as ``text``; ``read`` returns it when needed."""

    __slots__ = ("_content", "_read", "_text", "span")

    def __init__(self, span: Span, read: Callable[[Span], Content], text: str) -> None:
        self.span = span
        self._read, self._text = read, text
        self._content: Content | None = None

    @property
    def content(self) -> Content:
        """All that a comparison takes into account."""
        if self._content is None:
            try:
                self._content = self._read(self.span)
            except WireError:
                self._content = (MALFORMED, *shorten(self.span.pieces()))
        return self._content

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredValue):
            return NotImplemented
        a, b = self.span, other.span
        # The same bytes of one file are equal unread.
        return (
            a.file is b.file and a.start == b.start and a.end == b.end
        ) or self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)

    def __repr__(self) -> str:
        return self._text


class _TensorData:
    """A tensor's elements, compared by bytes; data at the same place is equal unread."""

    __slots__ = ("_hash", "_place", "_span")

    def __init__(self, span: Span, place: TensorPlace) -> None:
        self._span, self._place = span, place
        self._hash: Content | None = None

    @property
    def content(self) -> Content:
        if self._hash is None:
            try:
                self._hash = shorten(read_elements(self._span, self._place))
            except WireError:
                self._hash = (MALFORMED, *shorten(self._span.pieces()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _TensorData):
            return NotImplemented
        a, b = self._place, other._place
        if (
            (a.start, a.end) == (b.start, b.end)
            and a.path == b.path
            and (a.path or self._span.file is other._span.file)
        ):
            return True
        return self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)


def describe_variable(stored: Stored, position: int) -> Mapping[str, object]:
    """Return a subgraph variable's ``position`` if it is an input, and its ``value`` if it has one."""
    facts: dict[str, object] = {"position": position} if stored.input is not None else {}
    if stored.tensor is not None and stored.place is not None:
        text = f"{dtype_name(stored.place.code)} tensor {stored.place.shape}"
        facts["value"] = StoredValue(stored.tensor, read_tensor, text)
    elif stored.tensor is not None:
        facts["value"] = StoredValue(stored.tensor, read_sparse_tensor, "sparse tensor")
    return freeze(facts)


def read_tensor(span: Span) -> Content:
    """Return the dtype, the shape and the elements of a TensorProto. Raises WireError."""
    place = locate_tensor(span.file, span.start, span.end)
    return place.code, place.shape, _TensorData(span, place)


def read_sparse_tensor(span: Span) -> Content:
    """Return the values, the indices and the shape of a SparseTensorProto. Raises WireError."""
    file = span.file
    tensors: dict[int, Content] = {}
    shape: list[int] = []
    for field in scan(file.data, span.start, span.end):
        if field[0] in (1, 2):
            expect(field, BYTES, "a tensor")
            tensors[field[0]] = read_tensor(Span(file, field[3], field[4]))
        elif field[0] == 3:
            shape.extend(integers_at(file.data, field))
    return tensors.get(1), tensors.get(2), tuple(shape)


def format_sparse(span: Span) -> str:
    """Return the shape of a sparse tensor, with its parts' dtypes and shapes."""
    *parts, shape = read_sparse_tensor(span)
    texts = [f"{dtype_name(part[0])} {part[1]}" for part in parts if isinstance(part, tuple)]
    return f"sparse {shape} of {' at '.join(texts)}"


def read_attribute(span: Span) -> Content:
    """Return the kind and the value of an AttributeProto without a graph. Raises WireError."""
    file, data = span.file, span.file.data
    single: dict[int, Hashable] = {}
    lists: dict[int, list[Hashable]] = {}
    numbers: dict[int, list[bytes]] = {}
    kind = 0
    for field in scan(data, span.start, span.end):
        which = field[0]
        if which == _KIND:
            kind = enum_at(data, field)
        elif which in _SINGLE:
            single[which] = _SINGLE[which](file, field)
        elif which == _FLOATS:
            numbers.setdefault(which, []).append(data[field[3] : field[4]])
        elif which == _INTS:
            numbers.setdefault(which, []).append(pack_integers(data, field, 8))
        elif which not in (_NAME, _DOCUMENTATION):
            lists.setdefault(which, []).append(_REPEATED.get(which, _read_unknown)(file, field))
    kind = kind or next(
        (_KINDS[which] for which in (*single, *lists, *numbers) if which in _KINDS), 0
    )
    parts: dict[int, Hashable] = {
        which: value for which, value in single.items() if value not in _DEFAULTS
    }
    parts.update({which: tuple(values) for which, values in lists.items()})
    # An empty list equals a missing one.
    parts.update({which: shorten(values) for which, values in numbers.items() if any(values)})
    return kind, *sorted(parts.items(), key=lambda part: part[0])


def _read_float(file: OnnxFile, field: Field) -> bytes:
    """Return the bytes of a float, so that NaN equals NaN, and 0 differs from -0."""
    expect(field, FIXED32, "a float")
    return file.data[field[3] : field[4]]


def _read_bytes(file: OnnxFile, field: Field) -> Content:
    expect(field, BYTES, "a text")
    return shorten(file.pieces(field[3], field[4]))


def _read_unknown(file: OnnxFile, field: Field) -> Content:
    return shorten(file.pieces(field[2], field[4]))


def _read_type(span: Span) -> Content:
    stated = decode_type(span.file.data, span.start, span.end)
    return (stated,) if stated is not None else shorten(span.pieces())


def _read_message(file: OnnxFile, field: Field) -> Content:
    expect(field, BYTES, "a value of an attribute")
    return _MESSAGES[field[0]](Span(file, field[3], field[4]))


_MESSAGES: dict[int, Callable[[Span], Content]] = {
    _TENSOR: read_tensor,
    _TENSORS: read_tensor,
    _SPARSE: read_sparse_tensor,
    _SPARSE_TENSORS: read_sparse_tensor,
    _TYPE: _read_type,
    _TYPES: _read_type,
}
_SINGLE: dict[int, Callable[[OnnxFile, Field], Hashable]] = {
    _FLOAT: _read_float,
    _INT: lambda file, field: integer_at(file.data, field),
    _STRING: _read_bytes,
    _REFERENCE: _read_bytes,
}
_REPEATED: dict[int, Callable[[OnnxFile, Field], Content]] = {
    _STRINGS: _read_bytes,
    **dict.fromkeys(_MESSAGES, _read_message),
}

_DEFAULTS = (b"\0\0\0\0", 0, (b"",))
"""Values that are the same whether a file states them or not."""
