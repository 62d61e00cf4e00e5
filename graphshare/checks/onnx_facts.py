"""What rules on ONNX models look at. Imported where a model is checked: symbol files need no other format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphshare.formats.onnx.stored import NamedMessage, OnnxSource, find_stored, outputs_of
from graphshare.formats.onnx.tensors import dtype_name
from graphshare.formats.onnx.types import TensorType, read_type
from graphshare.formats.onnx.value_types import ValueType, find_types
from graphshare.ir.graph import Entry, Graph, Node

VALUE_INFO = 13


def list_opsets(graph: Graph) -> set[str]:
    """Return the domains of which a model imports an operator set."""
    source = graph.source
    return set(source.opsets) if isinstance(source, OnnxSource) else set()


def domain_of(node: Node) -> str:
    """Return the domain of an operator; empty for ONNX's own."""
    domain = node.details.domain
    return "" if domain == "ai.onnx" else domain


def is_constant(node: Node) -> bool:
    """Return whether a variable is the value of a Constant."""
    return not node.op and find_stored(node.details).node is not None


def list_stated_types(node: Node, inferred: Mapping[tuple[Node, int], ValueType]) -> Iterator[tuple[str, str, ValueType]]:
    """Yield where a file states a type, or ONNX infers it, the name of the value and the type, for each output of ``node``."""
    stored = find_stored(node.details)
    for index, name in enumerate(outputs_of(node)):
        messages = {"value_info": stored.values.infos.get(index), "the graph's outputs": stored.values.results.get(index)}
        if not node.op:
            messages["the graph's inputs"] = stored.input
        for where, message in messages.items():
            stated = read_type(message) if message is not None else None
            if stated is not None:
                yield where, name, stated
        if not node.op and stored.place is not None:
            where = "its Constant" if is_constant(node) else "its initializer"
            yield where, name, TensorType(dtype_name(stored.place.code), stored.place.shape)
        if (node, index) in inferred:
            yield "ONNX's inference", name, inferred[node, index]


def infer_independently(graph: Graph) -> Mapping[tuple[Node, int], ValueType]:
    """Return the types that ONNX infers of values of operators of which the file states one, without what it states."""
    values = [(node, find_stored(node.details).values) for node in graph.nodes if node.op]
    entries = [Entry(node, index) for node, stated in values for index in {**stated.infos, **stated.results}]
    return find_types(graph, entries, independent=True) if entries else {}


def list_stale_infos(graph: Graph) -> Iterator[NamedMessage]:
    """Yield the value_info of values that do not exist."""
    if isinstance(graph.source, OnnxSource):
        inner = {name for sub in _list_subgraphs(graph) for node in sub.nodes for name in outputs_of(node)}
        for number, message in graph.source.orphans:
            if number == VALUE_INFO and message.name not in inner:
                yield message


def _list_subgraphs(graph: Graph) -> Iterator[Graph]:
    pending = [graph]
    while pending:
        for node in pending.pop().nodes:
            yield from node.subgraphs
            pending.extend(node.subgraphs)
