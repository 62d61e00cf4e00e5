"""The contents of constants, the same for every form in which a file states the elements."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from graphshare.formats.onnx.protobuf import Field, integers_at, scan
from graphshare.formats.onnx.stored import Span, Stored, TensorPlace
from graphshare.formats.onnx.tensors import data_size, locate_tensor, read_elements
from graphshare.formats.onnx.values import (
    MALFORMED,
    Content,
    StoredValue,
    read_sparse_tensor,
    read_tensor,
)
from graphshare.ir.terms import shorten

FLOAT, INT, TENSOR, FLOATS, INTS = 2, 3, 5, 7, 8
"""Fields of an AttributeProto."""
_TEXTS, _SPARSE = (4, 9), 22
_EMPTY: Mapping[object, object] = {1: 0.0, 2: 0, 3: "", 6: (), 7: ()}
"""The values of attributes that state none, by ONNX's number of their type."""
FLOAT32, UINT8, INT8, INT32, INT64, STRING, BOOL = 1, 2, 3, 6, 7, 8, 9
"""ONNX's numbers of dtypes."""
INTEGER_FORMS = {2: "B", 3: "b", 4: "H", 5: "h", 6: "i", 7: "q", 12: "I", 13: "Q"}
"""The letters of struct for integers, by ONNX's number of the dtype."""
_LARGEST = 1 << 26  # bytes of a sparse constant in dense form
_Elements = tuple[int, tuple[int, ...], bytes]
"""The dtype, the shape and the elements of a tensor."""
_NUMBERS = {"value_ints": (INT64, INTS, 8), "value_floats": (FLOAT32, FLOATS, 4)}
"""The dtype, field and bytes per number of a Constant's attributes that are lists of numbers."""


def read_stored(stored: Stored) -> Content | None:
    """Return the content of a variable whose data is in its record; None for an input."""
    if stored.tensor is None:
        return None
    return read_sparse(stored.tensor) if stored.place is None else _read_dense(stored.tensor)


def read_constant(attributes: Mapping[str, Any]) -> Content | None:
    """Return a Constant's content, in any form; None if it is not a tensor, or malformed."""
    if len(attributes) != 1:
        return None
    ((name, value),) = attributes.items()
    if not isinstance(value, StoredValue):
        return None
    if name in ("value_string", "value_strings"):
        return _read_texts(value.span, is_list=name == "value_strings")
    if name in _TENSORS:
        number, read = _TENSORS[name]
        tensor = value.span.find_field(number)
        return None if tensor is None else read(tensor)
    if value.content[0] == MALFORMED:
        return None
    parts = read_parts(value.content)
    if name == "value_int":
        return INT64, (), (parts.get(INT, 0).to_bytes(8, "little", signed=True),)
    if name == "value_float":
        return FLOAT32, (), (parts.get(FLOAT, bytes(4)),)
    if name in _NUMBERS:
        code, number, width = _NUMBERS[name]
        data = parts.get(number, (b"",))
        return code, (count_bytes(data) // width,), data
    return None


def read_parts(content: Content) -> dict[int, Any]:
    """Return the values of an attribute by field; none of a malformed one."""
    parts: Any = () if content[0] == MALFORMED else content[1:]
    return dict(parts)


def read_value(content: Content) -> Any:
    """Return the value of an attribute: a number, a text, or a short tuple of numbers; otherwise None."""
    parts = read_parts(content)
    if not parts:  # 0 and empty values need not be stated
        return _EMPTY.get(content[0])
    if FLOAT in parts:
        return struct.unpack("<f", parts[FLOAT])[0]
    if INT in parts:
        return parts[INT]
    lists = [(parts[field], code) for field, code in ((FLOATS, "f"), (INTS, "q")) if field in parts]
    if lists and len(lists[0][0]) == 1:
        ((data,), code), *_ = lists
        return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)
    text = parts.get(_TEXTS[0], ())
    return text[0].decode(errors="replace") if len(text) == 1 else None


def count_bytes(data: tuple[Any, ...]) -> int:
    """Return the number of bytes of a content that :func:`shorten` made."""
    return len(data[0]) if len(data) == 1 else int(data[0])


def unpack_integers(data: bytes, width: int) -> list[int]:
    """Return signed integers, little endian, of ``width`` bytes each."""
    parts = (data[at : at + width] for at in range(0, len(data), width))
    return [int.from_bytes(part, "little", signed=True) for part in parts]


def _scan(span: Span) -> Iterator[Field]:
    return scan(span.file.data, span.start, span.end)


def _read_texts(span: Span, *, is_list: bool) -> Content:
    texts = [span.file.data[field[3] : field[4]] for field in _scan(span) if field[0] in _TEXTS]
    if not texts and not is_list:
        texts = [b""]
    shape = (len(texts),) if is_list else ()
    content = shorten(part for text in texts for part in (len(text).to_bytes(8, "little"), text))
    return STRING, shape, content


def _read_dense(span: Span) -> Content:
    code, shape, data = read_tensor(span)
    return code, shape, data.content  # type: ignore[attr-defined]


def read_sparse(span: Span) -> Content:
    """Return the content of a SparseTensorProto, with zeros (all bits 0) for unlisted elements.

    Texts, partial bytes, wrong indices and large tensors have their own kind of content.
    """
    tensors: dict[int, _Elements] = {}
    shape: list[int] = []
    for field in _scan(span):
        if field[0] == 3:
            shape.extend(integers_at(span.file.data, field))
        elif field[0] in (1, 2):
            part = Span(span.file, field[3], field[4])
            place = locate_tensor(part.file, part.start, part.end)
            tensors[field[0]] = place.code, place.shape, b"".join(read_elements(part, place))
    if len(tensors) == 2:
        content = _add_zeros(tensors[1], tensors[2], tuple(shape))
        if content is not None:
            return content
    return "sparse", read_sparse_tensor(span)


_TENSORS: Mapping[str, tuple[int, Callable[[Span], Content]]] = {
    "value": (TENSOR, _read_dense),
    "sparse_value": (_SPARSE, read_sparse),
}
"""The field of the attributes of a Constant that are tensors, and the function that reads it."""


def _flatten_indices(indices: Sequence[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the places of elements from consecutive indices per axis; none if one is out of range."""
    rows = [indices[at : at + len(shape)] for at in range(0, len(indices), len(shape) or 1)]
    if any(not 0 <= index < size for row in rows for index, size in zip(row, shape, strict=True)):
        return ()
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple([sum(map(int.__mul__, row, strides)) for row in rows])


def _read_places(indices: _Elements, count: int, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the places of ``count`` elements in this shape; None if ``indices`` are not valid."""
    kind, sizes, packed = indices
    form, numbers, total = INTEGER_FORMS.get(kind), prod(sizes), prod(shape)
    if form is None or len(packed) != numbers * struct.calcsize(f"<{form}"):
        return None
    places = struct.unpack(f"<{numbers}{form}", packed)
    if sizes == (count, len(shape)):  # for each value, its index on each axis
        places = _flatten_indices(places, shape)
    elif sizes != (count,):
        return None
    is_clear = len(set(places)) == count and all(0 <= place < total for place in places)
    return places if is_clear else None


def _add_zeros(values: _Elements, indices: _Elements, shape: tuple[int, ...]) -> Content | None:
    """Return the content of a tensor with ``values`` at ``indices``; None if these are not valid."""
    code, counts, data = values
    eight = data_size(TensorPlace((8,), code))
    if eight is None or eight % 8 or len(counts) != 1 or any(size < 0 for size in shape):
        return None
    (count,), width, total = counts, eight // 8, prod(shape)
    if total * width > _LARGEST or len(data) != count * width:
        return None
    places = _read_places(indices, count, shape)
    if places is None:
        return None
    dense = bytearray(total * width)
    for number, place in enumerate(places):
        dense[place * width : (place + 1) * width] = data[number * width : (number + 1) * width]
    return code, shape, shorten([bytes(dense)])
