"""Encode an ONNX model: the messages and field numbers of onnx.proto (IR versions 7 to 11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphshare.formats.onnx.protobuf import Message
from graphshare.ir.onnx import DTYPE_CODES, ExternalData, Float, OnnxGraph, OnnxModel, OnnxNode, Tensor, ValueInfo

# AttributeProto: where a value stands, and the number of its type.
_FLOAT, _INTEGER, _TEXT, _TENSOR, _GRAPH, _FLOATS, _INTEGERS, _TEXTS = (
    (2, 1),
    (3, 2),
    (4, 3),
    (5, 4),
    (6, 5),
    (7, 6),
    (8, 7),
    (9, 8),
)


def encode_model(model: OnnxModel) -> Message:
    """Return the message of a model's file; the data of tensors is read when its pieces are."""
    message = Message()
    message.add_integer(1, model.ir_version)
    message.add_text(2, model.producer)
    message.add_text(3, model.producer_version)
    message.add_text(6, model.doc_string)
    message.add_message(7, encode_graph(model.graph))
    for domain, number in model.opsets.items():
        opset = Message()
        opset.add_text(1, domain)
        opset.add_integer(2, number)
        message.add_message(8, opset)
    for key, value in model.metadata.items():
        message.add_message(14, _encode_pair(key, value))
    return message


def encode_graph(graph: OnnxGraph) -> Message:
    """Return a GraphProto."""
    message = Message()
    for node in graph.nodes:
        message.add_message(1, _encode_node(node))
    message.add_text(2, graph.name)
    for tensor in graph.initializers:
        message.add_message(5, encode_tensor(tensor))
    for value in graph.inputs:
        message.add_message(11, _encode_value(value))
    for value in graph.outputs:
        message.add_message(12, _encode_value(value))
    return message


def _encode_node(node: OnnxNode) -> Message:
    message = Message()
    message.add_texts(1, node.inputs)
    message.add_texts(2, node.outputs)
    message.add_text(3, node.name)
    message.add_text(4, node.op_type)
    for name, value in node.attributes.items():
        message.add_message(5, _encode_attribute(name, value))
    message.add_text(7, node.domain)
    return message


def _encode_attribute(name: str, value: Any) -> Message:
    message = Message()
    message.add_text(1, name)
    if isinstance(value, (bool, int)):
        message.add_integer(_INTEGER[0], int(value))
        kind = _INTEGER
    elif isinstance(value, float):
        message.add_float(_FLOAT[0], value)
        kind = _FLOAT
    elif isinstance(value, str):
        message.add_bytes(_TEXT[0], value.encode())
        kind = _TEXT
    elif isinstance(value, Tensor):
        message.add_message(_TENSOR[0], encode_tensor(value))
        kind = _TENSOR
    elif isinstance(value, OnnxGraph):
        message.add_message(_GRAPH[0], encode_graph(value))
        kind = _GRAPH
    else:
        kind = _encode_list(message, value)
    message.add_integer(20, kind[1])
    return message


def _encode_list(message: Message, values: Float | Sequence[int] | Sequence[str]) -> tuple[int, int]:
    if isinstance(values, Float):
        for number in values.values:
            message.add_float(_FLOATS[0], number)
        return _FLOATS
    if values and all(isinstance(value, str) for value in values):
        message.add_texts(_TEXTS[0], map(str, values))
        return _TEXTS
    for value in values:
        message.add_integer(_INTEGERS[0], int(value))
    return _INTEGERS


def encode_tensor(tensor: Tensor) -> Message:
    """Return a TensorProto: its data raw, or a reference to another file."""
    message = Message()
    for size in tensor.shape:
        message.add_integer(1, size)
    message.add_integer(2, DTYPE_CODES[tensor.dtype])
    message.add_text(8, tensor.name)
    if not isinstance(tensor.data, ExternalData):
        message.add_data(9, tensor.data)
        return message
    place = {"location": tensor.data.location, "offset": str(tensor.data.offset), "length": str(tensor.data.length)}
    for key, value in place.items():
        message.add_message(13, _encode_pair(key, value))
    message.add_integer(14, 1)
    return message


def _encode_value(value: ValueInfo) -> Message:
    shape = Message()
    for size in value.shape:
        dimension = Message()
        if isinstance(size, str):
            dimension.add_text(2, size)
        else:
            dimension.add_integer(1, size)
        shape.add_message(1, dimension)
    tensor = Message()
    tensor.add_integer(1, DTYPE_CODES[value.dtype])
    tensor.add_message(2, shape)
    kind = Message()
    kind.add_message(1, tensor)
    message = Message()
    message.add_text(1, value.name)
    message.add_message(2, kind)
    return message


def _encode_pair(key: str, value: str) -> Message:
    pair = Message()
    pair.add_text(1, key)
    pair.add_text(2, value)
    return pair
