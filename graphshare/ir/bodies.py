"""Subgraphs of a node and the inputs that they capture: by the names of the attributes that hold them, or by position."""

from __future__ import annotations

from collections import Counter

import msgspec

from graphshare.ir.graph import Entry, Graph, Node


class Body(msgspec.Struct, frozen=True, eq=False):
    """A subgraph of a node; ``captured`` maps its captures to the entries around it that they stand for."""

    graph: Graph
    captured: dict[Node, Entry]


def count_inputs(node: Node) -> int:
    """Return the number of a node's own inputs, without those that its subgraphs capture."""
    return len(node.inputs) - sum([len(graph.captures) for graph in node.subgraphs]) if node.subgraphs else len(node.inputs)


def own_inputs(node: Node) -> tuple[Entry, ...]:
    """Return the inputs of a node without those that its subgraphs capture."""
    return node.inputs[: count_inputs(node)] if node.subgraphs else node.inputs


def list_bodies(node: Node) -> dict[str, Body]:
    """Return the subgraphs of a node by the names of their attributes; by position in a format without such names.

    Of several in one attribute the position in it follows its name.
    """
    if not node.subgraphs:
        return {}
    names = node.details.bodies or tuple(map(str, range(len(node.subgraphs))))
    counts, places = Counter(names), Counter[str]()
    entries = iter(node.inputs[count_inputs(node) :])
    bodies: dict[str, Body] = {}
    for name, graph in zip(names, node.subgraphs, strict=True):
        captured = {variable: next(entries) for variable in graph.captures}
        bodies[f"{name} {places[name]}" if counts[name] > 1 else name] = Body(graph, captured)
        places[name] += 1
    return bodies
