"""The dtype and the shape that a file states of a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphshare.formats.facets import Dimension, NestedType, StaticType, TensorType
from graphshare.formats.onnx.protobuf import (
    BYTES,
    Data,
    Field,
    WireError,
    enum_at,
    expect,
    integer_at,
    scan,
    text_at,
)
from graphshare.formats.onnx.stored import FIRST_CONSTANTS, NamedMessage, OnnxSource, find_stored
from graphshare.ir.graph import Graph, Node
from graphshare.ir.onnx import dtype_name

_SPARSE, _MAP = 8, 5
_NESTED = {4: "sequence", _MAP: "map", 9: "optional"}
_DEEPEST = 16  # nesting of types
_TYPE, _TENSOR, _DTYPE, _SHAPE, _DIMENSION, _SIZE, _SYMBOL = 2, 1, 1, 2, 1, 1, 2


def list_types(graph: Graph) -> dict[str, TensorType]:
    """Return the stated types of a graph's inputs and outputs by name."""
    return {**input_types(graph), **output_types(graph)}


def input_types(graph: Graph) -> dict[str, TensorType]:
    """Return the stated types of a graph's inputs by name."""
    return _read_types([find_stored(node.details).input for node in graph.variables()])


def output_types(graph: Graph) -> dict[str, TensorType]:
    """Return the stated types of a graph's outputs by name."""
    return _read_types(
        [find_stored(head.node.details).values.results.get(head.index) for head in graph.heads]
    )


def list_replaceable(graph: Graph) -> Iterator[Node]:
    """Yield the inputs; those with a default only from IR version 4 on: before, every initializer
    is an input.
    """
    is_old = isinstance(graph.source, OnnxSource) and graph.source.ir_version < FIRST_CONSTANTS
    for node in graph.variables():
        stored = find_stored(node.details)
        if stored.input is not None and not (is_old and stored.tensor is not None):
            yield node


def _read_types(messages: Iterable[NamedMessage | None]) -> dict[str, TensorType]:
    types: dict[str, TensorType] = {}
    for message in messages:
        if message is None:
            continue
        stated = read_type(message)
        if stated is not None:
            types[message.name] = stated
    return types


def read_type(message: NamedMessage) -> TensorType | None:
    """Return the tensor type in a ValueInfoProto; None for another type or a malformed message."""
    stated = read_any_type(message)
    return stated if isinstance(stated, TensorType) else None


def is_complete(stated: StaticType | None) -> bool:
    """Whether a type suffices for an input of ONNX: dtype and rank, or the type in a sequence."""
    if stated is None:
        return False
    if isinstance(stated, NestedType):
        return True
    return bool(stated.dtype) and stated.shape is not None


def read_any_type(message: NamedMessage) -> StaticType | None:
    """Return the type in a ValueInfoProto; None if it is unknown or malformed."""
    data = message.file.data
    try:
        for field in scan(data, message.start, message.end):
            if field[0] == _TYPE:
                expect(field, BYTES, "a type")
                return parse_type(data, field[3], field[4])
    except WireError:
        return None
    return None


def parse_type(data: Data, start: int, end: int) -> StaticType | None:
    """Return the type in a TypeProto; None if it is unknown or malformed."""
    try:
        return decode_type(data, start, end)
    except WireError:
        return None


def decode_type(data: Data, start: int, end: int, depth: int = 0) -> StaticType | None:
    """Return the type in a TypeProto; None if it is unknown. Raises WireError."""
    for field in scan(data, start, end):
        if field[0] == _TENSOR:
            return _read_tensor_type(data, field)
        if field[0] == _SPARSE:
            return NestedType("sparse tensor", _read_tensor_type(data, field))
        if field[0] in _NESTED and depth < _DEEPEST:
            return _read_nested_type(data, field, depth)
    return None


def _read_nested_type(data: Data, field: Field, depth: int) -> NestedType | None:
    expect(field, BYTES, "a type")
    kind, inner = _NESTED[field[0]], None
    for part in scan(data, field[3], field[4]):
        if part[1] == BYTES:
            inner = decode_type(data, part[3], part[4], depth + 1)
        elif field[0] == _MAP:
            kind = f"map from {dtype_name(enum_at(data, part))}"
    return NestedType(kind, inner) if inner is not None else None


def _read_tensor_type(data: Data, field: Field) -> TensorType:
    dtype, shape = "", None
    expect(field, BYTES, "the type of a tensor")
    for inner in scan(data, field[3], field[4]):
        if inner[0] == _DTYPE:
            code = enum_at(data, inner)
            dtype = dtype_name(code) if code else ""
        elif inner[0] == _SHAPE:
            expect(inner, BYTES, "a shape")
            shape = tuple(
                _read_dimension(data, part)
                for part in scan(data, inner[3], inner[4])
                if part[0] == _DIMENSION
            )
    return TensorType(dtype, shape)


def _read_dimension(data: Data, field: Field) -> Dimension:
    size: Dimension = None
    expect(field, BYTES, "a dimension")
    for inner in scan(data, field[3], field[4]):
        if inner[0] == _SIZE:
            size = integer_at(data, inner)
            size = None if size < 0 else size  # Paddle's converters write -1 for an open size
        elif inner[0] == _SYMBOL:
            size = text_at(data, inner) or None
    return size
