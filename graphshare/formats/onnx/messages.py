"""Messages on values under other names: all but the names is copied byte by byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphshare.formats.onnx.graph_fields import TENSOR_NAME
from graphshare.formats.onnx.protobuf import Blob, Message
from graphshare.formats.onnx.stored import NamedMessage, Span
from graphshare.formats.onnx.wire import encode_text, scan, text_at


def rename_message(message: NamedMessage, name: str) -> Blob | Message:
    """Return a message under another name; its own bytes where it has that name."""
    if message.name == name:
        return message.span
    span = message.span
    renamed = Message()
    renamed.add_encoded(Span(span.file, span.start, message.name_start))
    renamed.add_bytes(message.number, encode_text(name))
    renamed.add_encoded(Span(span.file, message.name_end, span.end))
    return renamed


def rename_sparse(message: NamedMessage, name: str) -> Blob | Message:
    """Return a SparseTensorProto under another name, which is that of its values."""
    if message.name == name:
        return message.span
    span, renamed = message.span, Message()
    for field in scan(span.file.data, span.start, span.end):
        if field[2] != message.name_start:
            renamed.add_encoded(Span(span.file, field[2], field[4]))
            continue
        values = Message()
        for inner in scan(span.file.data, field[3], field[4]):
            if inner[0] != TENSOR_NAME:
                values.add_encoded(Span(span.file, inner[2], inner[4]))
            elif text_at(span.file.data, inner) == message.name:
                values.add_bytes(TENSOR_NAME, encode_text(name))
        renamed.add_message(1, values)
    return renamed


def rename_annotation(message: NamedMessage, name: str, new_names: Mapping[str, Sequence[str]]) -> Blob | Message:
    """Return a TensorAnnotation for the value ``name``.

    The values that it refers to have their new names; of several that with the prefix of ``name``.
    """
    if message.name == name:
        return message.span
    prefix = name.removesuffix(message.name) if name.endswith(message.name) else ""
    span, renamed = message.span, Message()
    renamed.add_bytes(1, encode_text(name))
    for number, _, begin, start, end in scan(span.file.data, span.start, span.end):
        if number == 2:
            pair = Message()
            for inner in scan(span.file.data, start, end):
                text = text_at(span.file.data, inner)
                names = new_names.get(text, ()) if inner[0] == 2 else ()
                new = names[0] if len(names) == 1 else prefix + text if prefix + text in names else text
                pair.add_bytes(inner[0], encode_text(new))
            renamed.add_message(2, pair)
        elif number != 1:
            renamed.add_encoded(Span(span.file, begin, end))
    return renamed


def describe_value(name: str, type_bytes: bytes | None = None) -> Message:
    """Return a ValueInfoProto; without a type where none is known."""
    message = Message()
    message.add_bytes(1, encode_text(name))
    if type_bytes is not None:
        message.add_bytes(2, type_bytes)
    return message
