"""A node while it is being upgraded: the loader's steps change variables through the operators that they feed."""

from __future__ import annotations

from collections.abc import Mapping

from graphshare.analysis.name_lists import total_outputs
from graphshare.ir.graph import VARIABLE, Entry, Graph, Node
from graphshare.ir.walk import reachable

_PLACEHOLDER = Node(VARIABLE, "")


class Draft:
    """A node that may still change. Compared by identity, as nodes are; edges are ``(draft, index, version)``."""

    __slots__ = ("attrs", "control_deps", "inputs", "name", "op", "subgraphs")

    def __init__(self, op: str, name: str, attrs: dict[str, str], subgraphs: tuple[Graph, ...] = ()) -> None:
        self.op = op
        self.name = name
        self.attrs = attrs
        self.subgraphs = subgraphs
        self.inputs: list[tuple[Draft, int, int]] = []
        self.control_deps: list[Draft] = []

    def placeholder_inputs(self) -> tuple[Entry, ...]:
        """As many inputs as this draft has, for questions that depend on their number only."""
        return (Entry(_PLACEHOLDER),) * len(self.inputs)

    def freeze(self, made: Mapping[Draft, Node], subgraphs: tuple[Graph, ...]) -> Node:
        """The node, its inputs looked up in ``made``; attributes sorted by the bytes of their keys, as MXNet writes them."""
        attrs = dict(sorted(self.attrs.items(), key=lambda item: item[0].encode()))
        inputs = tuple(Entry(made[source], index, version) for source, index, version in self.inputs)
        deps = tuple(made[dep] for dep in self.control_deps)
        count = total_outputs(Node(self.op, self.name, attrs, inputs, subgraphs=subgraphs))
        return Node(self.op, self.name, attrs, inputs, count, deps, subgraphs)


def drafts_of(graph: Graph) -> tuple[list[Draft], dict[Node, Draft]]:
    """A draft for every node that the heads need, in MXNet's order, and by node."""
    drafts: dict[Node, Draft] = {}
    for node in reachable(graph):
        draft = drafts[node] = Draft(node.op, node.name, dict(node.attrs), node.subgraphs)
        draft.inputs = [(drafts[entry.node], entry.index, entry.version or 0) for entry in node.inputs]
        draft.control_deps = [drafts[dep] for dep in node.control_deps]
    return list(drafts.values()), drafts
