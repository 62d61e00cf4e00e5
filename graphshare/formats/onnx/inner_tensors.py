"""Tensors inside operators and functions, the value of a Constant for one, whose data is in another file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from graphshare.errors import Fault, InputError
from graphshare.formats.onnx.messages import ExternalRange, replace_data
from graphshare.formats.onnx.protobuf import Blob, Message
from graphshare.formats.onnx.stored import (
    FUNCTION,
    TRAINING,
    FileRange,
    MemoryFile,
    OnnxFile,
    OnnxSource,
    Span,
    TensorPlace,
    find_stored,
)
from graphshare.formats.onnx.tensors import locate_sparse, locate_tensor
from graphshare.formats.onnx.wire import WireError, scan, text_at
from graphshare.ir.graph import Graph, Node
from graphshare.ir.rebuild import rebuild_graph

_MAX_DEPTH = 200  # messages in one another; protobuf itself reads 100
#: The fields of a message that lead to tensors, by what they hold.
_PARTS: dict[str, dict[int, str]] = {
    "function": {7: "operator", 11: "attribute"},
    "training": {1: "graph", 2: "graph"},
    "operator": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor", 6: "graph", 11: "graph", 22: "sparse", 23: "sparse"},
    "graph": {1: "operator", 5: "tensor", 15: "sparse"},
    "sparse": {},  # it has its data in the model
}
_KINDS = {FUNCTION: "function", TRAINING: "training"}
_NO_BODIES = {5: "tensor", 10: "tensor"}

Moves = Mapping[FileRange, ExternalRange | Blob]
TensorChange = Callable[[OnnxFile, int, int], Message]
"""Returns what becomes of the TensorProto from one byte of a file to another."""


class InnerTensor(msgspec.Struct, frozen=True, eq=False):
    """A tensor whose data is at ``place`` in another file; ``node`` is its operator, None outside of the graph.

    ``name`` is that of the operator's first output.
    """

    name: str
    place: TensorPlace
    node: Node | None = None


def list_inner_tensors(graph: Graph) -> Iterator[InnerTensor]:
    """Yield the tensors with external data in operators of a graph, of its bodies, and of what a model has beside its graph.

    Raises:
        InputError: a function is malformed.
    """
    pending = [graph]
    while pending:
        for node in pending.pop().nodes:
            for place in find_stored(node.details).outer:
                yield InnerTensor(node.name, place, node)
            pending.extend(node.subgraphs)
    yield from list_outside_graph(graph)


def list_outside_graph(graph: Graph) -> Iterator[InnerTensor]:
    """Yield the tensors with external data in the functions and the training information of a model. Raises InputError."""
    for span in _list_parts(graph):
        yield from _list_in_part(span)


def move_inner_data(graph: Graph, moves: Moves) -> Graph:
    """Return a graph whose operators and functions name the new places of their external data; all else as it was read."""
    if not moves:
        return graph

    def move(file: OnnxFile, start: int, end: int) -> Message:
        place = locate_tensor(file, start, end)
        where = moves.get(FileRange(place.path, place.start, place.end)) if place.path else None
        if where is not None:
            return replace_data(Span(file, start, end), where)
        message = Message()
        message.add_encoded(Span(file, start, end))
        return message

    return change_inner_tensors(graph, move, lambda node: bool(find_stored(node.details).outer), _list_parts(graph))


def change_inner_tensors(
    graph: Graph,
    change: TensorChange,
    is_concerned: Callable[[Node], bool],
    parts: Collection[Span] = (),
    *,
    enters_bodies: bool = False,
) -> Graph:
    """Return a graph with other tensors in ``parts`` of the model and in the operators that ``is_concerned`` selects.

    Operators of bodies are among them. With ``enters_bodies`` the messages of operators have bodies with other tensors,
    initializers included.
    """
    changed, _ = rebuild_graph(graph, lambda node: _change_in_node(node, change, is_concerned, enters_bodies))
    source = graph.source
    if isinstance(source, OnnxSource) and parts:
        fields = [(number, _change_part(span, change) if span in parts else span) for number, span in source.fields]
        # Without the heads that were read the model is not taken for an untouched one, whose bytes are copied.
        source = replace(source, fields=tuple(fields), heads=())
    return replace(changed, source=source)


def _change_in_node(node: Node, change: TensorChange, is_concerned: Callable[[Node], bool], enters_bodies: bool) -> Node:
    stored = find_stored(node.details)
    bodies = tuple([change_inner_tensors(body, change, is_concerned, enters_bodies=enters_bodies) for body in node.subgraphs])
    if stored.node is not None and is_concerned(node):
        span = stored.node
        changed = _encode(span.file, span.start, span.end, "operator", change, enters_bodies=enters_bodies)
        node = replace(node, details=replace(node.details, stored=replace(stored, node=keep_message(changed), outer=())))
    return node if bodies == node.subgraphs else replace(node, subgraphs=bodies)


def list_functions(graph: Graph) -> list[Span]:
    """Return the functions of a model, each with its tag."""
    return [span for number, span in graph.source.fields if number == FUNCTION] if isinstance(graph.source, OnnxSource) else []


def _list_parts(graph: Graph) -> list[Span]:
    """Return the functions and the training information of a model that have external data, each with its tag."""
    fields = graph.source.fields if isinstance(graph.source, OnnxSource) else ()
    return [span for number, span in fields if number in _KINDS and b"location" in span.read()]


def _list_in_part(span: Span) -> Iterator[InnerTensor]:
    file, data = span.file, span.file.data
    try:
        pending = [(field, _KINDS[field[0]], "") for field in scan(data, span.start, span.end)]
        while pending:
            (_, _, _, start, end), kind, name = pending.pop()
            if kind == "tensor":
                place = locate_tensor(file, start, end)
                if place.path:
                    yield InnerTensor(name, place)
                continue
            if kind == "sparse":
                locate_sparse(file, start, end)
            fields = list(scan(data, start, end))
            if kind == "operator":
                name = next((text_at(data, field) for field in fields if field[0] == 2), "")
            pending += [(field, _PARTS[kind][field[0]], name) for field in reversed(fields) if field[0] in _PARTS[kind]]
    except WireError as error:
        raise InputError(Fault(str(error), where=file.path, path=f"byte {error.position}")) from None


def _change_part(span: Span, change: TensorChange) -> Span:
    """Return a function or training information, which has its tag, with other tensors."""
    ((number, _, _, start, end),) = scan(span.file.data, span.start, span.end)
    message = Message()
    message.add_message(number, _encode(span.file, start, end, _KINDS[number], change))
    return keep_message(message)


def _encode(
    file: OnnxFile, start: int, end: int, kind: str, change: TensorChange, *, enters_bodies: bool = True, depth: int = 0
) -> Message:
    if depth > _MAX_DEPTH:
        raise InputError(Fault(f"messages are nested deeper than {_MAX_DEPTH} levels", where=file.path, path=f"byte {start}"))
    if kind == "tensor":
        return change(file, start, end)
    parts = _NO_BODIES if kind == "attribute" and not enters_bodies else _PARTS[kind]
    message = Message()
    for number, _, begin, inner, stop in scan(file.data, start, end):
        if number in parts:
            part = _encode(file, inner, stop, parts[number], change, enters_bodies=enters_bodies, depth=depth + 1)
            message.add_message(number, part)
        else:
            message.add_encoded(Span(file, begin, stop))
    return message


def keep_message(message: Message) -> Span:
    """Return a message as bytes in memory."""
    data = b"".join(message.pieces())
    return Span(MemoryFile(data), 0, len(data))
