"""Encode tensors with data inside or in another file; other fields are copied byte by byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphshare.formats.onnx.graph_fields import TENSOR_NAME
from graphshare.formats.onnx.messages import describe_tensor, encode_pair
from graphshare.formats.onnx.protobuf import (
    Blob,
    Field,
    Message,
    encode_text,
    encode_varint,
    enum_at,
    scan,
)
from graphshare.formats.onnx.stored import OWN_KEYS, MemoryFile, OnnxFile, Span
from graphshare.formats.onnx.tensors import (
    DATA_FIELDS,
    EXTERNAL,
    LOCATION,
    RAW,
    TENSOR_METADATA,
    find_integer_form,
    has_own_key,
    read_pair,
)

ExternalRange = tuple[str, int, int]
"""A file, as the model names it, and begin and end of the data in it."""
_KEY = f"{OWN_KEYS}data"
"""The metadata key of a tensor with moved data that states its former form in the model."""
_FORMS = {
    4: "float_data",
    5: "int32_data",
    7: "int64_data",
    RAW: "raw_data",
    10: "double_data",
    11: "uint64_data",
}
_NUMBERS = {name: number for number, name in _FORMS.items()}
_STATED = " data_location"  # follows the form if the model stated that the data is in it
_PLACE = ("location", "offset", "length")


def name_tensor(span: Span, name: str) -> Message:
    """Return a TensorProto under a name; a Constant's tensor may have none."""
    message, is_named = Message(), False
    for number, _, begin, _, end in scan(span.file.data, span.start, span.end):
        # The name goes where protobuf writes it, before higher field numbers.
        if not is_named and number >= TENSOR_NAME:
            message.add_bytes(TENSOR_NAME, encode_text(name))
            is_named = True
        if number != TENSOR_NAME:
            message.add_encoded(Span(span.file, begin, end))
    if not is_named:
        message.add_bytes(TENSOR_NAME, encode_text(name))
    return message


def encode_tensor(
    name: str, dtype: str, shape: Sequence[int], data: Blob | ExternalRange
) -> Message:
    """Return a TensorProto with raw data, or a reference to another file."""
    message = describe_tensor(name, dtype, shape)
    if isinstance(data, tuple):
        add_external(message, data)
    else:
        message.add_data(9, data)
    return message


def add_external(message: Message, data: ExternalRange) -> None:
    """Add the place of its data to a TensorProto."""
    location, start, end = data
    for key, value in {
        "location": location,
        "offset": str(start),
        "length": str(end - start),
    }.items():
        message.add_message(13, encode_pair(key, value))
    message.add_integer(14, 1)


def replace_data(span: Span, data: Blob | ExternalRange, name: str | None = None) -> Message:
    """Return a TensorProto with this data, inside or in another file, and ``name`` if given.

    Other fields are as read. Data that leaves the model and comes back regains its former form.
    """
    fields: list[tuple[int, Blob]] = []
    stored, is_stated, note = RAW, False, ""
    replaced = DATA_FIELDS if name is None else DATA_FIELDS | {TENSOR_NAME}
    for field in scan(span.file.data, span.start, span.end):
        number, _, begin, _, end = field
        key, value = _read_known_pair(span.file, field)
        # Such as a checksum
        stays_outside = number == EXTERNAL and isinstance(data, tuple) and key not in _PLACE
        if key == _KEY:
            note = value
        elif number in _FORMS:
            stored = number
        elif number == LOCATION:
            is_stated = not enum_at(span.file.data, field)
        elif stays_outside or number not in replaced:
            fields.append((number, Span(span.file, begin, end)))
    if name is not None:
        fields.append((TENSOR_NAME, _encode_field(TENSOR_NAME, encode_text(name))))
    if isinstance(data, tuple):
        fields += _point_outside(data, note or (_FORMS[stored] + _STATED * is_stated))
    else:
        fields += _put_inside(data, note, span)
    message = Message()
    for _, encoded in sorted(fields, key=lambda item: item[0]):
        message.add_encoded(encoded)
    return message


def _read_known_pair(file: OnnxFile, field: Field) -> tuple[str, str]:
    """Return key and value of a data location or of this package's metadata, else empty texts."""
    number, _, _, start, end = field
    is_known = number == EXTERNAL or (
        number == TENSOR_METADATA and has_own_key(file.data, start, end)
    )
    return read_pair(file, start, end) if is_known else ("", "")


def _put_inside(data: Blob, note: str, span: Span) -> Iterator[tuple[int, Blob]]:
    """Yield the numbered fields for data in the model; ``note`` is the form that moved data had."""
    number = _NUMBERS.get(note.removesuffix(_STATED), RAW)
    yield number, _encode_data(number, data, span)
    if note.endswith(_STATED):
        location = Message()
        location.add_integer(LOCATION, 0)
        yield LOCATION, location


def _point_outside(data: ExternalRange, form: str) -> Iterator[tuple[int, Blob]]:
    """Yield the numbered fields for data in another file; ``form`` is its form in the model."""
    place = Message()
    add_external(place, data)
    yield EXTERNAL, place
    if form != _FORMS[RAW]:
        note = Message()
        note.add_message(TENSOR_METADATA, encode_pair(_KEY, form))
        yield TENSOR_METADATA, note


def _encode_field(number: int, value: bytes) -> Message:
    field = Message()
    field.add_bytes(number, value)
    return field


def _encode_data(number: int, data: Blob, span: Span) -> Message:
    field = Message()
    if number not in _INTEGERS:
        field.add_data(number, data)
        return field
    width, signed = find_integer_form(span)
    content = b"".join(data.pieces())
    values = [
        int.from_bytes(content[i : i + width], "little", signed=signed)
        for i in range(0, len(content), width)
    ]
    packed = b"".join([encode_varint(value & _MASK) for value in values])
    field.add_data(number, Span(MemoryFile(packed), 0, len(packed)))
    return field


_INTEGERS, _MASK = (5, 7, 11), (1 << 64) - 1
