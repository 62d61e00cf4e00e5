"""Tensors inside operators and functions (such as the value of a Constant) with data in another file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from graphshare.errors import Fault, InputError
from graphshare.formats.onnx.messages import keep_field, keep_message, rewrite_message
from graphshare.formats.onnx.protobuf import Blob, Message, WireError, scan, text_at
from graphshare.formats.onnx.stored import (
    FUNCTION,
    TRAINING,
    FileRange,
    Span,
    TensorPlace,
    find_stored,
    get_source,
    replace_stored,
)
from graphshare.formats.onnx.tensor_messages import ExternalRange, replace_data
from graphshare.formats.onnx.tensors import locate_sparse, locate_tensor
from graphshare.ir.graph import Graph, Node
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ir.walk import iter_graphs

_MAX_DEPTH = 200  # nesting of messages; protobuf itself reads 100
#: The fields of a message that lead to tensors, by kind.
_PARTS: dict[str, dict[int, str]] = {
    "function": {7: "operator", 11: "attribute"},
    "training": {1: "graph", 2: "graph"},
    "operator": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor", 6: "graph", 11: "graph", 22: "sparse", 23: "sparse"},
    "graph": {1: "operator", 5: "tensor", 15: "sparse"},
    "sparse": {},  # its data is in the model
}
_KINDS = {FUNCTION: "function", TRAINING: "training"}
_NO_BODIES = {5: "tensor", 10: "tensor"}

Moves = Mapping[FileRange, ExternalRange | Blob]
TensorChange = Callable[[Span], Message]
"""Returns the replacement of a TensorProto."""


class InnerTensor(msgspec.Struct, frozen=True, eq=False):
    """A tensor with data at ``place`` in another file; ``node`` is its operator, None outside the graph.

    ``name`` is the operator's first output.
    """

    name: str
    place: TensorPlace
    node: Node | None = None


def list_inner_tensors(graph: Graph) -> Iterator[InnerTensor]:
    """Yield tensors with external data in operators, bodies, functions and training information.

    Raises:
        InputError: a function is malformed.
    """
    for each in iter_graphs(graph):
        for node in each.nodes:
            for place in find_stored(node.details).outer:
                yield InnerTensor(node.name, place, node)
    yield from list_outside_graph(graph)


def list_outside_graph(graph: Graph) -> Iterator[InnerTensor]:
    """Yield the tensors with external data in a model's functions and training information.

    Raises InputError.
    """
    for span in _list_parts(graph):
        yield from _list_in_part(span)


def move_inner_data(graph: Graph, moves: Moves) -> Graph:
    """Return a graph whose operators and functions name the new places of their external data."""
    if not moves:
        return graph

    def move(span: Span) -> Message:
        place = locate_tensor(span.file, span.start, span.end)
        where = moves.get(place.file_range) if place.path else None
        return rewrite_message(span, {}) if where is None else replace_data(span, where)

    return change_inner_tensors(
        graph, move, lambda node: bool(find_stored(node.details).outer), _list_parts(graph)
    )


def change_inner_tensors(
    graph: Graph,
    change: TensorChange,
    is_concerned: Callable[[Node], bool],
    parts: Collection[Span] = (),
    *,
    enters_bodies: bool = False,
) -> Graph:
    """Change tensors in ``parts`` of the model and in operators, also of bodies, selected by
    ``is_concerned``.

    With ``enters_bodies`` the operators' messages also get bodies with changed tensors and
    initializers.
    """
    changed, _ = rebuild_graph(
        graph, lambda node: _change_in_node(node, change, is_concerned, enters_bodies)
    )
    if parts:
        source = get_source(graph)
        fields = [
            (number, _change_part(span, change) if span in parts else span)
            for number, span in source.fields
        ]
        # The heads are removed, or the model would count as untouched and its bytes be copied.
        changed = replace(changed, source=replace(source, fields=tuple(fields), heads=()))
    return changed


def _change_in_node(
    node: Node, change: TensorChange, is_concerned: Callable[[Node], bool], enters_bodies: bool
) -> Node:
    stored = find_stored(node.details)
    bodies = tuple(
        [
            change_inner_tensors(body, change, is_concerned, enters_bodies=enters_bodies)
            for body in node.subgraphs
        ]
    )
    if stored.node is not None and is_concerned(node):
        changed = _encode(stored.node, "operator", change, enters_bodies=enters_bodies)
        node = replace_stored(node, node=keep_message(changed), outer=())
    return node if bodies == node.subgraphs else replace(node, subgraphs=bodies)


def _list_parts(graph: Graph) -> list[Span]:
    """Return functions and training information with external data, tags included."""
    # Every reference to external data has this key, and a search is much faster than reading.
    return [
        span
        for number, span in get_source(graph).fields
        if number in _KINDS and b"location" in span.read()
    ]


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
            pending += [
                (field, _PARTS[kind][field[0]], name)
                for field in reversed(fields)
                if field[0] in _PARTS[kind]
            ]
    except WireError as error:
        raise InputError(
            Fault(str(error), where=file.path, path=f"byte {error.position}")
        ) from None


def _change_part(span: Span, change: TensorChange) -> Span:
    number, value = span.open_field()
    return keep_field(number, _encode(value, _KINDS[number], change))


def _encode(
    span: Span, kind: str, change: TensorChange, *, enters_bodies: bool = True, depth: int = 0
) -> Message:
    if depth > _MAX_DEPTH:
        fault = f"messages are nested deeper than {_MAX_DEPTH} levels"
        raise InputError(Fault(fault, where=span.file.path, path=f"byte {span.start}"))
    if kind == "tensor":
        return change(span)
    parts = _NO_BODIES if kind == "attribute" and not enters_bodies else _PARTS[kind]
    encode = partial(_encode, change=change, enters_bodies=enters_bodies, depth=depth + 1)
    return rewrite_message(
        span, {number: partial(encode, kind=part) for number, part in parts.items()}
    )
