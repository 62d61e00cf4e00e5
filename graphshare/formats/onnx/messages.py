"""Encode messages on values and attributes: new ones, and renamed ones, otherwise copied byte by byte.

The field numbers come from onnx.proto (IR versions 7 to 11).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphshare.formats.onnx.graph_fields import TENSOR_NAME
from graphshare.formats.onnx.protobuf import Blob, Message, encode_name, encode_text, scan
from graphshare.formats.onnx.stored import MemoryFile, NamedMessage, Span
from graphshare.formats.onnx.tensors import RAW
from graphshare.ir.graph import Graph
from graphshare.ir.onnx import DTYPE_CODES, Dimensions, Float, Tensor, dtype_code

_FLOAT, _INTEGER, _TEXT, _TENSOR, _GRAPH, _FLOATS, _INTEGERS, _TEXTS = range(2, 10)
"""The fields of values in an AttributeProto; the number of a value's type is one less."""
SHORT = 512
"""Bytes up to which a message is in memory while others are written."""
FieldChange = Callable[[Span], Message | bytes]
"""Returns the new value of a field."""


def rename_message(message: NamedMessage, name: str) -> bytes | Blob | Message:
    """Return a message under another name, or its own bytes if it has that name."""
    data, start, end = message.file.data, message.start, message.end
    if end - start <= SHORT:
        if message.name == name:
            return data[start:end]
        return (
            data[start : message.name_start]
            + encode_name(message.number, name)
            + data[message.name_end : end]
        )
    if message.name == name:
        return message
    renamed = Message()
    renamed.add_encoded(Span(message.file, start, message.name_start))
    renamed.add_bytes(message.number, encode_text(name))
    renamed.add_encoded(Span(message.file, message.name_end, end))
    return renamed


def rewrite_message(span: Span, changes: Mapping[int, FieldChange | None]) -> Message:
    """Return a message with ``changes`` to fields by number, and all else as it was read.

    Fields with None are removed.
    """
    message = Message()
    for number, _, begin, start, end in scan(span.file.data, span.start, span.end):
        if number not in changes:
            message.add_encoded(Span(span.file, begin, end))
            continue
        change = changes[number]
        if change is None:
            continue
        value = change(Span(span.file, start, end))
        if isinstance(value, bytes):
            message.add_bytes(number, value)
        else:
            message.add_message(number, value)
    return message


def keep_message(message: Message) -> Span:
    """Return a message as bytes in memory."""
    data = b"".join(message.pieces())
    return Span(MemoryFile(data), 0, len(data))


def keep_field(number: int, value: Message) -> Span:
    """Return a field with its tag as bytes in memory."""
    field = Message()
    field.add_message(number, value)
    return keep_message(field)


def rename_sparse(message: NamedMessage, name: str) -> Blob | Message:
    """Return a SparseTensorProto under another name, stored in its values."""
    if message.name == name:
        return message
    new_name = {TENSOR_NAME: lambda _: encode_text(name)}
    return rewrite_message(message, {1: lambda values: rewrite_message(values, new_name)})


def rename_annotation(
    message: NamedMessage, name: str, find_new_name: Callable[[str], str]
) -> Message:
    """Return a TensorAnnotation for the value ``name``, with values that it refers to renamed."""

    def rename(value: Span) -> bytes:
        return encode_text(find_new_name(value.read().decode("utf-8", "surrogateescape")))

    return rewrite_message(
        message,
        {1: lambda _: encode_text(name), 2: lambda pair: rewrite_message(pair, {2: rename})},
    )


def describe_value(name: str, type_bytes: bytes | None = None) -> Message:
    """Return a ValueInfoProto; without ``type_bytes`` it has no type."""
    message = Message()
    message.add_bytes(1, encode_text(name))
    if type_bytes is not None:
        message.add_bytes(2, type_bytes)
    return message


def describe_type(dtype: str, shape: Dimensions | None) -> bytes:
    """Return the TypeProto of a tensor, of any rank if ``shape`` is None."""
    dimensions = Message()
    for size in shape or ():
        dimension = Message()
        if isinstance(size, str):
            dimension.add_text(2, size)
        elif size is not None:
            dimension.add_integer(1, size)
        dimensions.add_message(1, dimension)
    tensor = Message()
    tensor.add_integer(1, dtype_code(dtype))
    if shape is not None:
        tensor.add_message(2, dimensions)
    whole = Message()
    whole.add_message(1, tensor)
    return b"".join(whole.pieces())


def describe_tensor(name: str, dtype: str, shape: Sequence[int]) -> Message:
    """Return a TensorProto without data."""
    message = Message()
    for size in shape:
        message.add_integer(1, size)
    message.add_integer(2, DTYPE_CODES[dtype])
    if name:
        message.add_bytes(TENSOR_NAME, encode_text(name))
    return message


def encode_attribute(name: str, value: Any) -> Message:
    """Return an AttributeProto. A graph in it is empty; the node's subgraph is written in its place."""
    message = Message()
    message.add_text(1, name)
    field = _add_value(message, value)
    message.add_integer(20, field - 1)
    return message


def _add_value(message: Message, value: Any) -> int:
    if isinstance(value, (bool, int)):
        message.add_integer(_INTEGER, int(value))
        return _INTEGER
    if isinstance(value, float):
        message.add_float(_FLOAT, value)
        return _FLOAT
    if isinstance(value, str):
        message.add_bytes(_TEXT, value.encode())
        return _TEXT
    if isinstance(value, Tensor):
        tensor = describe_tensor("", value.dtype, value.shape)
        tensor.add_bytes(RAW, value.content or b"")
        message.add_message(_TENSOR, tensor)
        return _TENSOR
    if isinstance(value, Graph):
        message.add_message(_GRAPH, Message())
        return _GRAPH
    if isinstance(value, Float):
        for number in value.values:
            message.add_float(_FLOATS, number)
        return _FLOATS
    if value and all(isinstance(text, str) for text in value):
        message.add_texts(_TEXTS, value)
        return _TEXTS
    for number in value:
        message.add_integer(_INTEGERS, int(number))
    return _INTEGERS


def encode_pair(key: str, value: str) -> Message:
    """Return a StringStringEntryProto."""
    pair = Message()
    pair.add_text(1, key)
    pair.add_text(2, value)
    return pair
