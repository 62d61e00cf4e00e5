"""The levels of a picture: the contents of each scope, and the edges inside it.

A line between boxes of different scopes becomes an edge in each scope that it crosses: from the box
to a port at the border, from border to border, from a port to the box. So every level is arranged
by itself, and folding a scope does not rearrange anything else. Lines from one box share ports and
points: together they are a net.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from graphshare.drawing.layout.text_size import measure_box, measure_label, shorten_middle
from graphshare.drawing.picture import Box, Line, Picture
from graphshare.text.format import format_count

Path = tuple[str, ...]


class Vertex(msgspec.Struct):
    """A ``box``, a ``scope``, a ``point`` of a net, or a ``gutter`` between others, in level
    ``level``.

    ``content`` is the number of the box, of the level inside, or of the net; ``size`` is (width,
    height), folded for a scope. ``label`` is the width of the label behind a box; it moves with the
    box.
    """

    kind: str
    level: int
    content: int
    size: tuple[float, float] = (0.0, 0.0)
    label: float = 0.0


class Link(msgspec.Struct):
    """An edge between neighbouring rows, with ``source`` above. In a ``reversed`` link data flow
    upwards.
    """

    source: int
    target: int
    net: int
    kind: str
    reversed: bool = False


class SharedBox(msgspec.Struct):
    """A box of shared parameters beside the rows; ``gutter`` is the vertex that keeps its place, -1
    right of all rows.
    """

    vertex: int
    consumers: list[int]
    gutter: int = -1


class ScopeLevel(msgspec.Struct):
    """The contents of one scope. ``vertex`` stands for it in the enclosing level, and ``box`` shows
    it when folded.

    ``edges`` give a kind to (source, target, net); layering turns them into rows and links.
    """

    path: Path
    title: str
    kind: str = "scope"
    vertex: int = -1
    box: int = -1
    members: list[int] = []
    edges: dict[tuple[int, int, int], str] = {}
    entrances: dict[int, int] = {}
    exits: dict[int, int] = {}
    rows: list[list[int]] = []
    links: list[Link] = []
    long_links: list[Link] = []
    shared: list[SharedBox] = []

    def number_rows(self) -> dict[int, int]:
        return {v: number for number, row in enumerate(self.rows) for v in row}


class Layout(msgspec.Struct):
    """The levels, the root first and every scope after its parent; ``at`` is the vertex of each
    box.
    """

    boxes: list[Box]
    vertices: list[Vertex]
    levels: list[ScopeLevel]
    at: list[int]

    def ancestors(self, vertex: int) -> list[int]:
        """Return ``vertex`` and its enclosing vertices, up to the root level."""
        chain = [vertex]
        while (outer := self.levels[self.vertices[chain[-1]].level].vertex) >= 0:
            chain.append(outer)
        return chain


def build_levels(picture: Picture) -> Layout:
    """Return the levels of ``picture`` with their edges, not yet arranged."""
    paths = find_paths(picture)
    # A parameter with inputs stands in the rows; damaged files can have one
    fed = {line.target for line in picture.lines}
    layout = Layout(_list_boxes(picture), [], [ScopeLevel((), "")], [])
    level_of: dict[Path, int] = {(): 0}
    for number, box in enumerate(layout.boxes[:]):
        for depth in range(1, len(paths[number]) + 1):
            path = paths[number][:depth]
            if path not in level_of:
                level_of[path] = len(layout.levels)
                _open_level(layout, picture, path, level_of[path[:-1]])
        level, vertex = level_of[paths[number]], len(layout.vertices)
        layout.at.append(vertex)
        layout.vertices.append(
            Vertex("box", level, number, measure_box(box), measure_label(box.label))
        )
        if box.kind != "shared" or number in fed:
            layout.levels[level].members.append(vertex)
    consumers: dict[int, list[int]] = {}
    for line in picture.lines:
        source, target = layout.at[line.source], layout.at[line.target]
        if line.kind == "shared" and line.source not in fed:
            consumers.setdefault(line.source, []).append(target)
            continue
        kind = "data" if line.kind == "shared" else line.kind
        _add_edges(layout, source, target, line.source, line.mark or kind)
    for number, vertices in consumers.items():
        _add_shared(layout, layout.at[number], vertices)
    return layout


def _list_boxes(picture: Picture) -> list[Box]:
    """Return the boxes; the shapes of their outputs become labels."""
    shapes: dict[int, dict[str, None]] = {}
    for line in picture.lines:
        if line.kind == "data" and picture.boxes[line.source].kind in ("operator", "scope"):
            shapes.setdefault(line.source, {}).update(dict.fromkeys(line.labels))
    boxes = list(picture.boxes)
    for number, labels in shapes.items():
        if labels:
            text = ", ".join(labels) if len(labels) < 3 else format_count(len(labels), "shape")
            boxes[number] = msgspec.structs.replace(boxes[number], label=shorten_middle(text))
    return boxes


def find_paths(picture: Picture) -> list[Path]:
    """Return the path of each box: its branch if there are several, and its scopes.

    A box that needs a second branch, such as a loss of two branches, is outside of both unless all
    boxes of its branch do.
    """
    joint = _find_joint_boxes(picture) if len(picture.branches) > 1 else frozenset()
    return [
        () if number in joint else picture.find_path(box)
        for number, box in enumerate(picture.boxes)
    ]


def _find_joint_boxes(picture: Picture) -> frozenset[int]:
    """Return the boxes that need a second branch, unless all boxes of their own branch do."""
    # Sets of branches as bits of an integer: a graph may have thousands of them.
    bits = {branch: 1 << i for i, branch in enumerate(picture.branches)}
    kinds = ("operator", "scope", "output")
    own = [
        bits.get(box.cluster[0], 0) if box.cluster and box.kind in kinds else 0
        for box in picture.boxes
    ]
    needs = _find_needed_branches(picture.lines, own)
    common: dict[int, int] = {}  # the branches that all boxes of a branch need
    for mask, need in zip(own, needs, strict=True):
        common[mask] = common.get(mask, need) & need
    return frozenset(
        i
        for i, (mask, need) in enumerate(zip(own, needs, strict=True))
        if mask and need & ~common[mask]
    )


def _find_needed_branches(lines: Sequence[Line], own: Sequence[int]) -> list[int]:
    """Return the branches that each box needs, as bits; boxes without a branch pass none on."""
    needs = list(own)
    targets: dict[int, list[int]] = {}
    for line in lines:
        targets.setdefault(line.source, []).append(line.target)
    pending = [number for number, mask in enumerate(own) if mask]
    while pending:
        source = pending.pop()
        for target in targets.get(source, ()):
            # A box is visited again only if it gains a branch.
            if own[target] and needs[source] & ~needs[target]:
                needs[target] |= needs[source]
                pending.append(target)
    return needs


def _open_level(layout: Layout, picture: Picture, path: Path, outer: int) -> None:
    is_branch = len(path) == 1 and len(picture.branches) > 1 and path[0] in picture.branches
    title = path[-1] or "original" if is_branch else path[-1]
    key = path if len(picture.branches) > 1 else ("", *path)
    folded = picture.scopes.get(key) or Box("scope", title, [], path[:-1])
    layout.boxes.append(msgspec.structs.replace(folded, title=title))
    layout.vertices.append(
        Vertex("scope", outer, len(layout.levels), measure_box(layout.boxes[-1]))
    )
    layout.levels[outer].members.append(len(layout.vertices) - 1)
    kind = "branch" if is_branch else "scope"
    layout.levels.append(
        ScopeLevel(path, title, kind, vertex=len(layout.vertices) - 1, box=len(layout.boxes) - 1)
    )


def _add_edges(layout: Layout, source: int, target: int, net: int, kind: str) -> None:
    """Add a line as an edge of each level that it crosses."""
    above, below = layout.ancestors(source), layout.ancestors(target)
    # Scopes around both ends are not crossed. The loop stops, because the ends are different boxes.
    while above[-1] == below[-1]:
        above.pop()
        below.pop()
    for inner, outer in pairwise(above):
        _add_edge(layout, inner, _port(layout, outer, net, "exits"), net, kind)
    _add_edge(layout, above[-1], below[-1], net, kind)
    for inner, outer in pairwise(below):
        _add_edge(layout, _port(layout, outer, net, "entrances"), inner, net, kind)


def _add_edge(layout: Layout, source: int, target: int, net: int, kind: str) -> None:
    edges = layout.levels[layout.vertices[source].level].edges
    # Data lines hide control lines.
    if edges.get((source, target, net)) != "data":
        edges[source, target, net] = kind


def _port(layout: Layout, scope: int, net: int, side: str) -> int:
    number = layout.vertices[scope].content
    ports: dict[int, int] = getattr(layout.levels[number], side)
    if net not in ports:
        ports[net] = len(layout.vertices)
        layout.vertices.append(Vertex("point", number, net))
    return ports[net]


def _add_shared(layout: Layout, vertex: int, consumers: Sequence[int]) -> None:
    """Put a box of shared parameters into the innermost level with all its consumers."""
    chains = [layout.ancestors(consumer)[::-1] for consumer in consumers]
    depth = 0
    while (
        all(len(chain) > depth + 1 for chain in chains)
        and len({chain[depth] for chain in chains}) == 1
    ):
        depth += 1
    level = layout.vertices[chains[0][depth]].level
    layout.vertices[vertex].level = level
    layout.levels[level].shared.append(SharedBox(vertex, list(consumers)))
