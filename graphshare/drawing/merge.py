"""Two graphs in one picture: common nodes appear once, and nodes of only one graph appear beside them.

A node of the second graph is drawn with its inputs there. A node that only the first graph has is drawn with its
inputs' counterparts in the second. Lines that only the first graph has are lost lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from graphshare.drawing.picture import AnnotatedGraph
from graphshare.drawing.unfold import OpenBody
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import reachable

Images = Mapping[Node, Node]
_Key = tuple[Node, int]


class Merged(msgspec.Struct, frozen=True, eq=False):
    """Two graphs in one: ``first`` maps nodes of the first graph alone to their copies, ``second`` lists the second's."""

    graph: AnnotatedGraph
    first: Images
    second: Sequence[Node]


def merge(left: AnnotatedGraph, right: AnnotatedGraph, branches: Sequence[Images]) -> Merged:
    """Merge two graphs; each of ``branches`` maps nodes of ``left`` to their counterparts in one copy."""
    everywhere: dict[Node, Node] = {}
    for branch in branches:
        for a, b in branch.items():
            # Outside the branches, the first of several copies is the counterpart.
            everywhere.setdefault(a, b)
    needed = reachable(left.graph)
    alone: dict[Node, Node] = {}

    def follow(entry: Entry, branch: Images = everywhere) -> Entry:
        node = branch.get(entry.node) or everywhere.get(entry.node) or alone[entry.node]
        return Entry(node, entry.index)

    for node in needed:  # inputs come first
        if node not in everywhere:
            alone[node] = replace(node, inputs=tuple(map(follow, node.inputs)), control_deps=())
    lost: dict[tuple[_Key, Node | None], Entry] = {}
    added: dict[tuple[Node, int, Node], None] = {}
    members = set(needed)
    for branch in branches:
        for a, b in branch.items():
            # If both graphs have the operator, an input that only one of them has is a lost or an added line.
            olds = {(entry.node, entry.index): entry for entry in (follow(e, branch) for e in a.inputs if a in members)}
            news = {(entry.node, entry.index) for entry in b.inputs}
            lost.update({(key, b): entry for key, entry in olds.items() if key not in news})
            added.update({(*key, b): None for key in news if key not in olds})
    # An output of a node that only the first graph has leads nowhere; this line keeps the node in the picture.
    lost.update({((alone[head.node], head.index), None): follow(head) for head in left.graph.heads if head.node in alone})
    reached = {b for branch in branches for b in branch.values()}
    added.update({(e.node, e.index, n): None for n in right.graph.nodes if n not in reached for e in n.inputs})
    graph = replace(
        right,
        graph=replace(right.graph, nodes=(*right.graph.nodes, *alone.values())),
        parameters=right.parameters | {alone[node] for node in left.parameters if node in alone},
        shapes={**{(alone[n], i): shape for (n, i), shape in left.shapes.items() if n in alone}, **right.shapes},
        bodies={**right.bodies, **_place_bodies(left, right, everywhere, alone)},
        alone=frozenset(alone.values()),
        added=frozenset(added),
        lost=[(entry, target) for (_, target), entry in lost.items()],
    )
    return Merged(graph, alone, [node for node in right.graph.nodes if node not in reached])


def _place_bodies(left: AnnotatedGraph, right: AnnotatedGraph, images: Images, alone: Images) -> dict[Node, OpenBody]:
    """Return a body for each node of the left graph alone: the counterpart of its body, or a new one for its owner."""
    twins = {left.bodies[a]: right.bodies[b] for a, b in images.items() if a in left.bodies and b in right.bodies}
    for body in left.bodies.values():
        if body not in twins:
            twins[body] = OpenBody(body.key, body.depth, images.get(body.owner) or alone.get(body.owner, body.owner))
    return {alone[node]: twins[body] for node, body in left.bodies.items() if node in alone}
