"""Facts about ONNX models for several rules. Symbol files need not import this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphshare.formats.facets import StaticType, TensorType
from graphshare.formats.onnx.graph_fields import LIST_NAMES
from graphshare.formats.onnx.graph_names import GraphNames
from graphshare.formats.onnx.stored import (
    GRAPH_METADATA,
    METADATA,
    NamedMessage,
    find_stored,
    get_source,
    read_metadata,
)
from graphshare.formats.onnx.types import is_complete, read_any_type, read_type
from graphshare.formats.onnx.value_types import find_types
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.onnx import dtype_name
from graphshare.ir.walk import iter_graphs, list_output_names
from graphshare.reports.model import Steps


def is_constant(node: Node) -> bool:
    """Whether a variable is the value of a Constant."""
    return not node.op and find_stored(node.details).node is not None


def list_stated_types(
    node: Node, inferred: Mapping[tuple[Node, int], StaticType]
) -> Iterator[tuple[str, str, StaticType]]:
    """Yield stated and inferred types of a node's outputs: place, name of the value, type."""
    stored = find_stored(node.details)
    for index, name in enumerate(list_output_names(node)):
        messages = {
            "value_info": stored.values.infos.get(index),
            "the graph's outputs": stored.values.results.get(index),
        }
        if not node.op:
            messages["the graph's inputs"] = stored.input
        for where, message in messages.items():
            if message is not None and (stated := read_type(message)) is not None:
                yield where, name, stated
        if not node.op and stored.place is not None:
            where = "its Constant" if is_constant(node) else "its initializer"
            yield where, name, TensorType(dtype_name(stored.place.code), stored.place.shape)
        if (node, index) in inferred:
            yield "ONNX's inference", name, inferred[node, index]


def list_incomplete(graph: Graph) -> Iterator[tuple[str, Node, str]]:
    """Yield the inputs and outputs without a stated dtype or rank: node and missing part."""
    ends = [("input", node, find_stored(node.details).input) for node in graph.variables()]
    ends += [
        ("output", head.node, find_stored(head.node.details).values.results.get(head.index))
        for head in graph.heads
    ]
    for what, node, message in ends:
        if message is None:
            continue
        stated = read_any_type(message)
        if is_complete(stated):
            continue
        missing = "type"
        if isinstance(stated, TensorType):
            missing = "rank" if stated.dtype else "dtype"
        yield f"{what} {message.name!r}", node, missing


def infer_independently(graph: Graph) -> Mapping[tuple[Node, int], StaticType]:
    """Infer the types of operators' values that the file states, without using its statements."""
    values = [(node, find_stored(node.details).values) for node in graph.nodes if node.op]
    entries = list[Entry]()
    for node, stated in values:
        entries += [Entry(node, index) for index in {**stated.infos, **stated.results}]
    return find_types(graph, entries, independent=True) if entries else {}


def list_stale(graph: Graph) -> Iterator[tuple[str, NamedMessage]]:
    """Yield value_info and annotations of values that do not exist, bodies included, each with the
    name of its list.
    """
    graphs = list(iter_graphs(graph))
    orphans = [orphan for each in graphs for orphan in get_source(each).orphans]
    if not orphans:
        return
    nodes = [node for each in graphs for node in each.nodes]
    known = {name for node in nodes for name in list_output_names(node)} - {""}
    for number, message in orphans:
        if message.name not in known:
            yield LIST_NAMES[number], message


def list_repeated(graph: Graph) -> Iterator[tuple[Steps, str]]:
    """Yield the place and name of messages and metadata that a later entry repeats, bodies
    included.
    """
    for each in iter_graphs(graph):
        for node in each.nodes:
            for number, _, message in find_stored(node.details).values.repeated:
                yield ("graph", LIST_NAMES[number], message.rank), message.name
    source = get_source(graph)
    for steps, fields, number in (
        ((), source.fields, METADATA),
        (("graph",), source.rest, GRAPH_METADATA),
    ):
        keys = [read_metadata(span)[0] for each, span in fields if each == number]
        last = {key: i for i, key in enumerate(keys)}
        for i, key in enumerate(keys):
            if last[key] != i:
                yield (*steps, "metadata_props", i), key


def list_shadows(graph: Graph) -> Iterator[tuple[Steps, Node, str, bool]]:
    """Yield values of bodies that have the name of an outer value: place, node, name, and whether
    loaders reject it.

    Loaders reject the outputs of operators, unless the outer value comes after the operator that
    has the body.
    """
    pending: list[tuple[Steps, GraphNames]] = [((), GraphNames(graph))]
    for steps, names in pending:
        for node in names.nodes:
            for name in filter(None, names.list_outputs(node)):
                for around in names.outside:
                    if name not in around.definitions:
                        continue
                    position = around.definitions[name].position
                    if position == around.owner:
                        continue  # a body may have the name of its owner's output
                    is_output = bool(node.op) or is_constant(node)
                    yield steps, node, name, is_output and position < around.owner
        for i, node in enumerate(names.graph.nodes):
            if not node.subgraphs:
                continue
            for k, body in enumerate(names.list_bodies(node)):
                pending.append(((*steps, "nodes", i, "subgraphs", k), body))
