"""Two graphs in one picture: common nodes appear once, and nodes of only one graph appear beside them.

A node of the second graph is drawn with its inputs there. A node that only the first graph has is drawn with its
inputs' counterparts in the second. Lines that only the first graph has are lost lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from graphshare.drawing.picture import AnnotatedGraph
from graphshare.drawing.unfold import OpenBody
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import reachable

Images = Mapping[Node, Node]
_Line = tuple[Node, int, Node]


class Merged(msgspec.Struct, frozen=True, eq=False):
    """Two graphs in one: ``first`` maps nodes that only the first graph has to their copies, ``second`` lists the second's."""

    graph: AnnotatedGraph
    first: Images
    second: Sequence[Node]


def _list_lines(nodes: Iterable[Node]) -> set[_Line]:
    return {(entry.node, entry.index, node) for node in nodes for entry in node.inputs}


def merge(left: AnnotatedGraph, right: AnnotatedGraph, branches: Sequence[Images]) -> Merged:
    """Merge two graphs; each of ``branches`` maps nodes of ``left`` to their counterparts in one copy."""
    everywhere: dict[Node, Node] = {}
    pairs = [(branch, a, b) for branch in branches for a, b in branch.items()]
    for _, a, b in pairs:
        # Of several copies the first stands for nodes that no branch pairs.
        everywhere.setdefault(a, b)
    needed = reachable(left.graph)
    alone: dict[Node, Node] = {}

    def follow(entry: Entry, branch: Images = everywhere) -> Entry:
        node = branch.get(entry.node) or everywhere.get(entry.node) or alone[entry.node]
        return Entry(node, entry.index)

    for node in needed:  # inputs come first
        if node not in everywhere:
            alone[node] = replace(node, inputs=tuple(map(follow, node.inputs)), control_deps=())
    members = set(needed)
    # Where both graphs have the operator, inputs that only one of them has are lost or added lines.
    olds: dict[_Line, Entry] = {}
    for branch, a, b in pairs:
        for entry in map(partial(follow, branch=branch), a.inputs if a in members else ()):
            olds[entry.node, entry.index, b] = entry
    reached = {b for _, _, b in pairs}
    news = _list_lines({*right.graph.nodes, *reached})
    lost: list[tuple[Entry, Node | None]] = [(entry, key[2]) for key, entry in olds.items() if key not in news]
    # An output that only the first graph has leads nowhere; the line keeps its operator in the picture.
    ends = {(head.node, head.index): head for head in left.graph.heads if head.node in alone}
    lost += [(follow(head), None) for head in ends.values()]
    graph = replace(
        right,
        graph=replace(right.graph, nodes=(*right.graph.nodes, *alone.values())),
        parameters=right.parameters | {alone[node] for node in left.parameters & alone.keys()},
        shapes={**{(alone[n], i): shape for (n, i), shape in left.shapes.items() if n in alone}, **right.shapes},
        bodies={**right.bodies, **_place_bodies(left, right, everywhere, alone)},
        alone=frozenset(alone.values()),
        added=frozenset(news - olds.keys()),
        lost=lost,
    )
    return Merged(graph, alone, [node for node in right.graph.nodes if node not in reached])


def _place_bodies(left: AnnotatedGraph, right: AnnotatedGraph, images: Images, alone: Images) -> dict[Node, OpenBody]:
    """Return a body for each node that only the left graph has: the counterpart of its body, or a new one for its owner."""
    twins = {left.bodies[a]: right.bodies[b] for a, b in images.items() if a in left.bodies and b in right.bodies}
    for body in left.bodies.values():
        if body not in twins:
            twins[body] = OpenBody(body.key, body.depth, images.get(body.owner) or alone.get(body.owner, body.owner))
    return {alone[node]: twins[body] for node, body in left.bodies.items() if node in alone}
