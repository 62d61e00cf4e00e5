"""Differences between a graph and the bytes of a file that should hold it, found on the decoded records.

Faster than reading a second graph, and independent of the writer: it goes through JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphshare.errors import Fault
from graphshare.formats import document
from graphshare.formats.symbol import read_symbol
from graphshare.ir.graph import Entry, Graph, Node


def differences(data: bytes, graph: Graph) -> Iterator[Fault]:
    """What of ``graph`` the file's bytes do not say.

    Raises:
        InputError: the bytes are no symbol file at all.
    """
    found = document.parse_fast(data)
    if found is None or not _usual(graph):
        yield from _graph_differences(read_symbol(data), graph)
        return
    expected = _Numbers(graph)
    records = found["nodes"]
    if len(records) != len(graph.nodes):
        yield Fault(f"holds {len(records)} nodes instead of {len(graph.nodes)}")
        return
    for i, (record, node) in enumerate(zip(records, graph.nodes, strict=True)):
        inputs = record["inputs"]
        if (
            record["op"] != node.op
            or record["name"] != node.name
            or (inputs or node.inputs) and inputs != [expected[entry] for entry in node.inputs]
            or (record.get("attrs") or record.get("attr") or record.get("param") or {}) != node.attrs
        ):
            yield Fault("does not read back as it was", path=f"$.nodes[{i}]", node=node.name)
    if found["heads"] != [expected[entry] for entry in graph.heads]:
        yield Fault("do not read back as they were", path="$.heads")


def _usual(graph: Graph) -> bool:
    """Whether no node has what a plain look at its record misses: attributes in two maps, sub-graphs, control dependencies."""
    return not any(
        node.subgraphs or node.control_deps or (node.form is not None and node.form.param is not None) for node in graph.nodes
    )


class _Numbers(dict[Entry, tuple[int, ...]]):
    """Entry to the numbers it is written as."""

    def __init__(self, graph: Graph) -> None:
        self._ids = {node: i for i, node in enumerate(graph.nodes)}

    def __missing__(self, entry: Entry) -> tuple[int, ...]:
        i = self._ids[entry.node]
        numbers = self[entry] = (i, entry.index) if entry.version is None else (i, entry.index, entry.version)
        return numbers


def _graph_differences(found: Graph, graph: Graph, path: str = "$") -> Iterator[Fault]:
    if len(found.nodes) != len(graph.nodes):
        yield Fault(f"holds {len(found.nodes)} nodes instead of {len(graph.nodes)}", path=path)
        return
    ids = {node: i for i, node in enumerate(graph.nodes)}
    found_ids = {node: i for i, node in enumerate(found.nodes)}
    for i, (a, b) in enumerate(zip(found.nodes, graph.nodes, strict=True)):
        if _content(a, found_ids) != _content(b, ids) or len(a.subgraphs) != len(b.subgraphs):
            yield Fault("does not read back as it was", path=f"{path}.nodes[{i}]", node=b.name)
            continue
        for k, (inner, wanted) in enumerate(zip(a.subgraphs, b.subgraphs, strict=True)):
            yield from _graph_differences(inner, wanted, f"{path}.nodes[{i}].subgraphs[{k}]")
    if [_numbers(e, found_ids) for e in found.heads] != [_numbers(e, ids) for e in graph.heads]:
        yield Fault("do not read back as they were", path=f"{path}.heads")


def _content(node: Node, ids: dict[Node, int]) -> tuple[Any, ...]:
    inputs = [_numbers(entry, ids) for entry in node.inputs]
    return node.op, node.name, dict(node.attrs), inputs, [ids[dep] for dep in node.control_deps]


def _numbers(entry: Entry, ids: dict[Node, int]) -> tuple[int, int, int | None]:
    return ids[entry.node], entry.index, entry.version
