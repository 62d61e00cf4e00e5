"""What rules on ONNX models look at. Imported where a model is checked: symbol files need no other format."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from graphshare.errors import InputError
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.parameters import index_parameters
from graphshare.formats.onnx.stored import NamedMessage, OnnxFile, OnnxSource, find_stored, outputs_of
from graphshare.formats.onnx.tensors import dtype_name
from graphshare.formats.onnx.types import TensorType, read_type
from graphshare.formats.open_source import open_source
from graphshare.formats.params.records import ParameterFile
from graphshare.formats.paths import describe_file
from graphshare.ir.graph import Graph, Node
from graphshare.text.urls import redact

VALUE_INFO = 13


class MissingData(msgspec.Struct, frozen=True, eq=False):
    """An initializer whose external data is not there, and why."""

    node: Node
    reason: str


def read_graph(path: str) -> Graph:
    """Return the graph of a model whose external data need not be there. Raises InputError."""
    with open_source(path) as source:
        return decode_model(OnnxFile(source, seeks_data=False))


def read_parameters(graph: Graph) -> ParameterFile | None:
    """Return the index of the initializers; None where external data is missing."""
    try:
        return None if any(True for _ in find_missing_data(graph)) else index_parameters(graph)
    except InputError:
        return None


def find_missing_data(graph: Graph) -> Iterator[MissingData]:
    """Yield the initializers whose external data is missing or too short."""
    sizes: dict[str, int | None] = {}
    for node in graph.variables():
        place = find_stored(node.details).place
        if place is None or not place.path:
            continue
        if place.path not in sizes:
            try:
                sizes[place.path] = describe_file(place.path).size
            except (OSError, InputError):
                sizes[place.path] = None
        size, name = sizes[place.path], redact(place.path)
        if size is None:
            yield MissingData(node, f"{name} does not exist")
        elif size < place.end:
            yield MissingData(node, f"{name} has {size:,} bytes, and the data ends at byte {place.end:,}")


def list_opsets(graph: Graph) -> set[str]:
    """Return the domains of which a model imports an operator set."""
    source = graph.source
    return set(source.opsets) if isinstance(source, OnnxSource) else set()


def domain_of(node: Node) -> str:
    """Return the domain of an operator; empty for ONNX's own."""
    domain = node.details.domain if node.details is not None else ""
    return "" if domain == "ai.onnx" else domain


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
            yield "its initializer", name, TensorType(dtype_name(stored.place.code), stored.place.shape)


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
