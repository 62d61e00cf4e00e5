"""All faults of a graph object. Tests check rewrites and the builder with it.

Ids, forward references and cycles are faults of files: an object graph has no ids, and frozen nodes
cannot refer to later ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphshare.errors import Fault
from graphshare.ir.graph import Entry, Graph, Node


def validate(graph: Graph) -> list[Fault]:
    """Every fault of ``graph`` and of its subgraphs, with its place as a JSON path; empty when it is sound."""
    faults: list[Fault] = []
    pending = [("$", graph)]
    while pending:
        path, inner = pending.pop()
        faults.extend(_graph_faults(inner, path))
        for i, node in enumerate(inner.nodes):
            pending.extend(
                (f"{path}.nodes[{i}].subgraphs[{k}]", part) for k, part in enumerate(node.subgraphs)
            )
    return faults


def _graph_faults(graph: Graph, path: str) -> Iterator[Fault]:
    known: dict[Node, int] = {}
    for i, node in enumerate(graph.nodes):
        first = known.setdefault(node, i)
        if first != i:
            yield Fault(
                f"is the same node as $.nodes[{first}]", path=f"{path}.nodes[{i}]", node=node.name
            )
    for i, node in enumerate(graph.nodes):
        if known[node] == i:
            for place, message in _node_faults(node, known):
                yield Fault(message, path=f"{path}.nodes[{i}]{place}", node=str(node.name))
    for i, entry in enumerate(graph.heads):
        yield from (
            Fault(message, path=f"{path}.heads[{i}]") for message in _entry_faults(entry, known)
        )


def _node_faults(node: Node, known: Mapping[Node, int]) -> Iterator[tuple[str, str]]:
    """Pairs of a place within the node and what is wrong there."""
    for key, text in (("op", node.op), ("name", node.name)):
        if not isinstance(text, str):
            yield f".{key}", f"is {text!r}, not a string"
        elif "\0" in text:
            yield f".{key}", f"{text!r} holds a NUL character, which MXNet cannot read"
    for attribute, value in node.attrs.items():
        if not isinstance(attribute, str) or not isinstance(value, str):
            yield ".attrs", f"{attribute!r}: {value!r} is not a pair of strings"
    if node.is_variable and node.inputs:
        yield ".inputs", "a variable has inputs"
    if node.num_outputs is not None and node.num_outputs < 0:
        yield "", f"has {node.num_outputs} outputs"
    for i, entry in enumerate(node.inputs):
        yield from ((f".inputs[{i}]", message) for message in _entry_faults(entry, known))
    for i, dep in enumerate(node.control_deps):
        if dep not in known:
            yield f".control_deps[{i}]", f"depends on {dep.name!r}, which is not in the graph"


def _entry_faults(entry: Entry, known: Mapping[Node, Any]) -> Iterator[str]:
    node = entry.node
    if node not in known:
        yield f"refers to {node.name!r}, which is not in the graph"
    count = 1 if node.is_variable else node.num_outputs
    if entry.index < 0 or (count is not None and entry.index >= count):
        has = (
            "an unknown number of outputs"
            if count is None
            else f"{count} output{'s' * (count != 1)}"
        )
        yield f"refers to output {entry.index} of {node.name!r}, which has {has}"
    if entry.version is not None and entry.version < 0:
        yield f"has the version {entry.version}"
