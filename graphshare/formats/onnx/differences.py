"""What differs between a written ONNX file and the graph that it came from."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import zip_longest

from graphshare.errors import Fault
from graphshare.formats.byte_source import ByteSource
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.stored import OnnxFile, find_stored, outputs_of
from graphshare.formats.onnx.tensors import data_size
from graphshare.ir.graph import Entry, Graph, Node

_Facts = tuple[object, ...]


def find_differences(source: ByteSource, graph: Graph, changed: Collection[str] = ()) -> Iterator[Fault]:
    """Yield a fault for everything in which the file reads back as another graph. Raises InputError for a broken file.

    Initializers ``changed`` may have other shapes and dtypes. External data is not looked for: it may be in place later.
    """
    read = decode_model(OnnxFile(source, seeks_data=False))
    for node, twin in zip_longest(_operators(graph), _operators(read)):
        if node is None or twin is None:
            yield Fault("the file has another number of operators")
            return
        expected, found = _describe(node), _describe(twin)
        if expected != found:
            yield Fault(f"reads back as {found}, expected {expected}", node=node.name)
    ours, theirs = ({node.name: _describe_variable(node) for node in g.nodes if not node.op} for g in (graph, read))
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) != theirs.get(name) and name not in changed:
            yield Fault(f"variable reads back as {theirs.get(name)}, expected {ours.get(name)}", node=name)
    heads = [[_value(entry) for entry in g.heads] for g in (graph, read)]
    if heads[0] != heads[1]:
        yield Fault(f"the outputs read back as {heads[1]}, expected {heads[0]}")


def _operators(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.op)


def _value(entry: Entry) -> str:
    return outputs_of(entry.node)[entry.index]


def _describe(node: Node) -> _Facts:
    details = node.details
    inputs = tuple([_value(entry) for entry in node.inputs])
    return (
        node.op,
        details.label,
        details.domain,
        inputs,
        details.absent,
        outputs_of(node),
        tuple(node.attrs.items()),
        len(node.subgraphs),
    )


def _describe_variable(node: Node) -> _Facts:
    place = find_stored(node.details).place
    if not node.details.holds_value or place is None:
        return "initializer" if node.details.holds_value else "input", (), 0, 0
    return "initializer", place.shape, place.code, place.end - place.start if place.pieces else data_size(place)
