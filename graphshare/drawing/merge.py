"""Two graphs in one picture: common nodes appear once, and nodes of only one graph beside them.

A node of the second graph is drawn with its inputs there. A node of only the first graph is drawn
with its inputs' counterparts in the second. Lines of only the first graph are lost lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from graphshare.drawing.picture import AnnotatedGraph
from graphshare.drawing.unfold import OpenBody
from graphshare.ir.graph import EMPTY, Entry, Node
from graphshare.ir.walk import reachable

Images = Mapping[Node, Node]
_Line = tuple[Node, int, Node]


class Merged(msgspec.Struct, frozen=True, eq=False):
    """Two graphs in one: ``first`` maps nodes of only the first graph to their copies, ``second``
    lists the second's.
    """

    graph: AnnotatedGraph
    first: Images
    second: Sequence[Node]


class _Counterparts:
    """Merged nodes for nodes of the first graph: nodes of the second (``images``), or copies of
    nodes ``alone``.
    """

    def __init__(self, left: AnnotatedGraph, branches: Sequence[Images]) -> None:
        self._branches = branches
        self._needed = reachable(left.graph)
        self.images: dict[Node, Node] = {}
        for branch in branches:
            for node, image in branch.items():
                # The first of several copies stands for nodes that no branch pairs.
                self.images.setdefault(node, image)
        self.alone: dict[Node, Node] = {}
        for node in self._needed:  # inputs come first
            if node not in self.images:
                inputs = tuple(map(self.follow, node.inputs))
                self.alone[node] = replace(node, inputs=inputs, control_deps=())

    def follow(self, entry: Entry, branch: Images = EMPTY) -> Entry:
        """Return the counterpart of a value, in ``branch`` if it has one."""
        node = branch.get(entry.node) or self.images.get(entry.node) or self.alone[entry.node]
        return Entry(node, entry.index)

    def list_lines(self) -> dict[_Line, Entry]:
        members = set(self._needed)
        lines: dict[_Line, Entry] = {}
        for branch in self._branches:
            needed = {node: image for node, image in branch.items() if node in members}
            for node, image in needed.items():
                for entry in node.inputs:
                    start = self.follow(entry, branch)
                    lines[start.node, start.index, image] = start
        return lines


def merge(left: AnnotatedGraph, right: AnnotatedGraph, branches: Sequence[Images]) -> Merged:
    """Merge two graphs; ``branches`` map nodes of ``left`` to counterparts."""
    counterparts = _Counterparts(left, branches)
    alone = counterparts.alone
    reached = {image for branch in branches for image in branch.values()}
    # Where both graphs have the operator, inputs that only one of them has are lost or added lines.
    olds = counterparts.list_lines()
    news = {
        (entry.node, entry.index, node)
        for node in {*right.graph.nodes, *reached}
        for entry in node.inputs
    }
    lost: list[tuple[Entry, Node | None]] = [
        (entry, line[2]) for line, entry in olds.items() if line not in news
    ]
    # The line of a lost output leads nowhere, but keeps its operator in the picture.
    ends = {(head.node, head.index): head for head in left.graph.heads if head.node in alone}
    lost += [(counterparts.follow(head), None) for head in ends.values()]
    shapes = {(alone[n], i): shape for (n, i), shape in left.shapes.items() if n in alone}
    graph = replace(
        right,
        graph=replace(right.graph, nodes=(*right.graph.nodes, *alone.values())),
        parameters=right.parameters | {alone[node] for node in left.parameters & alone.keys()},
        shapes={**shapes, **right.shapes},
        bodies={**right.bodies, **_place_bodies(left, right, counterparts.images, alone)},
        alone=frozenset(alone.values()),
        added=frozenset(news - olds.keys()),
        lost=lost,
    )
    return Merged(graph, alone, [node for node in right.graph.nodes if node not in reached])


def _place_bodies(
    left: AnnotatedGraph, right: AnnotatedGraph, images: Images, alone: Images
) -> dict[Node, OpenBody]:
    """Return the bodies of nodes ``alone``: their counterparts of the second graph, else copies."""
    twins: dict[OpenBody, OpenBody] = {}
    for node, image in images.items():
        if node in left.bodies and image in right.bodies:
            twins[left.bodies[node]] = right.bodies[image]
    places = {**alone, **images}
    for body in left.bodies.values():
        if body not in twins:
            owner = places.get(body.owner, body.owner)
            twins[body] = OpenBody(body.key, body.depth, owner)
    return {alone[node]: twins[body] for node, body in left.bodies.items() if node in alone}
