"""What rules on ONNX models look at. Imported where a model is checked: symbol files need no other format."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.formats.onnx.stored import NamedMessage, OnnxSource, find_stored, outputs_of
from graphshare.formats.onnx.tensors import dtype_name
from graphshare.formats.onnx.types import TensorType, read_type
from graphshare.ir.graph import Graph, Node

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


def list_stated_types(node: Node) -> Iterator[tuple[str, str, TensorType]]:
    """Yield where a file states a type, the name of the value and the type, for each output of ``node``."""
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
            yield (
                "its Constant" if is_constant(node) else "its initializer",
                name,
                TensorType(dtype_name(stored.place.code), stored.place.shape),
            )


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
