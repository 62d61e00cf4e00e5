"""Tensors inside operators and functions, the value of a Constant for one, whose data is in another file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from graphshare.errors import Fault, InputError
from graphshare.formats.onnx.messages import ExternalRange, add_external
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.stored import FUNCTION, FileRange, MemoryFile, OnnxFile, OnnxSource, Span, TensorPlace, find_stored
from graphshare.formats.onnx.tensors import locate_tensor
from graphshare.formats.onnx.wire import Field, WireError, scan, text_at
from graphshare.ir.graph import Graph, Node
from graphshare.ir.rebuild import rebuild, relink_all

_EXTERNAL, _LOCATION = 13, 14
_MAX_DEPTH = 200  # messages in one another; protobuf itself reads 100
#: The fields of a message that lead to tensors, by what they hold.
_PARTS: dict[str, dict[int, str]] = {
    "function": {7: "operator", 11: "attribute"},
    "operator": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor", 6: "graph", 11: "graph"},
    "graph": {1: "operator", 5: "tensor"},
}
_NO_BODIES = {5: "tensor", 10: "tensor"}

Moves = Mapping[FileRange, ExternalRange]


class InnerTensor(msgspec.Struct, frozen=True, eq=False):
    """A tensor whose data is at ``place`` in another file; ``node`` is its operator, None in a function.

    ``name`` is that of the operator's first output.
    """

    name: str
    place: TensorPlace
    node: Node | None = None


def list_inner_tensors(graph: Graph) -> Iterator[InnerTensor]:
    """Yield the tensors with external data in operators of a graph, of its bodies, and of the model's functions.

    Raises:
        InputError: a function is malformed.
    """
    pending = [graph]
    while pending:
        for node in pending.pop().nodes:
            for place in find_stored(node.details).outer:
                yield InnerTensor(node.name, place, node)
            pending.extend(node.subgraphs)
    for span in _list_functions(graph):
        yield from _list_in_function(span)


def move_inner_data(graph: Graph, moves: Moves) -> Graph:
    """Return a graph whose operators and functions name the new places of their external data; all else as it was read."""
    if not moves:
        return graph
    images = rebuild(graph.nodes, lambda node: _move_in_node(node, moves))
    nodes, heads, source = tuple([images[node] for node in graph.nodes]), relink_all(graph.heads, images), graph.source
    if isinstance(source, OnnxSource):
        functions = {span: _move(span, "function", moves) for span in _list_functions(graph)}
        fields = tuple([(number, functions.get(span, span)) for number, span in source.fields])
        # Without the heads that were read the model is not taken for an untouched one, whose bytes are copied.
        source = replace(source, fields=fields, heads=()) if functions else source
    return replace(graph, nodes=nodes, heads=heads, source=source)


def _move_in_node(node: Node, moves: Moves) -> Node:
    stored = find_stored(node.details)
    bodies = tuple([move_inner_data(body, moves) for body in node.subgraphs])
    if stored.outer and stored.node is not None:
        moved = _encode(stored.node.file, stored.node.start, stored.node.end, "operator", moves, enters_bodies=False)
        node = replace(node, details=replace(node.details, stored=replace(stored, node=_keep(moved), outer=())))
    return node if bodies == node.subgraphs else replace(node, subgraphs=bodies)


def _list_functions(graph: Graph) -> list[Span]:
    """Return the functions of a model that have external data, each with its tag."""
    fields = graph.source.fields if isinstance(graph.source, OnnxSource) else ()
    return [span for number, span in fields if number == FUNCTION and b"location" in span.read()]


def _list_in_function(span: Span) -> Iterator[InnerTensor]:
    file, data = span.file, span.file.data
    try:
        pending = [(field, "function", "") for field in scan(data, span.start, span.end)]
        while pending:
            (_, _, _, start, end), kind, name = pending.pop()
            if kind == "tensor":
                place = locate_tensor(file, start, end)
                if place.path:
                    yield InnerTensor(name, place)
                continue
            fields = list(scan(data, start, end))
            if kind == "operator":
                name = next((text_at(data, field) for field in fields if field[0] == 2), "")
            pending += [(field, _PARTS[kind][field[0]], name) for field in reversed(fields) if field[0] in _PARTS[kind]]
    except WireError as error:
        raise InputError(Fault(str(error), where=file.path, path=f"byte {error.position}")) from None


def _move(span: Span, kind: str, moves: Moves) -> Span:
    """Return a field, which has its tag, with its external data in its new places."""
    ((number, _, _, start, end),) = scan(span.file.data, span.start, span.end)
    message = Message()
    message.add_message(number, _encode(span.file, start, end, kind, moves))
    return _keep(message)


def _encode(
    file: OnnxFile, start: int, end: int, kind: str, moves: Moves, *, enters_bodies: bool = True, depth: int = 0
) -> Message:
    if depth > _MAX_DEPTH:
        raise InputError(Fault(f"messages are nested deeper than {_MAX_DEPTH} levels", where=file.path, path=f"byte {start}"))
    if kind == "tensor":
        place = locate_tensor(file, start, end)
        where = moves.get(FileRange(place.path, place.start, place.end)) if place.path else None
        return _copy(file, scan(file.data, start, end), where)
    parts = _NO_BODIES if kind == "attribute" and not enters_bodies else _PARTS[kind]
    message = Message()
    for number, _, begin, inner, stop in scan(file.data, start, end):
        if number in parts:
            part = _encode(file, inner, stop, parts[number], moves, enters_bodies=enters_bodies, depth=depth + 1)
            message.add_message(number, part)
        else:
            message.add_encoded(Span(file, begin, stop))
    return message


def _copy(file: OnnxFile, fields: Iterator[Field], where: ExternalRange | None) -> Message:
    """Return a TensorProto, with its data elsewhere if ``where`` says so."""
    message = Message()
    for number, _, begin, _, end in fields:
        if where is None or number not in (_EXTERNAL, _LOCATION):
            message.add_encoded(Span(file, begin, end))
    if where is not None:
        add_external(message, where)
    return message


def _keep(message: Message) -> Span:
    data = b"".join(message.pieces())
    return Span(MemoryFile(data), 0, len(data))
