"""What differs between two graphs whose nodes are paired.

Not a difference: the order of nodes in the file, its layout, an entry's mutation version, and names that were expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from graphshare.differences.alignment import align
from graphshare.ir.graph import VARIABLE, Entry, Graph, Node
from graphshare.ir.walk import consumers


class NodeRef(msgspec.Struct, frozen=True):
    """A node by its id in the file, its name and its operator (``null`` for a variable)."""

    id: int
    name: str
    op: str


class Change(msgspec.Struct, frozen=True):
    """One thing that differs: ``what`` it is, which one, and both values as text; None where one side has none."""

    what: str
    key: str
    old: str | None
    new: str | None


class Renamed(msgspec.Struct, frozen=True):
    """A node under another name than expected."""

    old: NodeRef
    new: NodeRef


class Changed(msgspec.Struct, frozen=True):
    """A node that is not what it was."""

    old: NodeRef
    new: NodeRef
    changes: tuple[Change, ...]


class TieMoved(msgspec.Struct, frozen=True):
    """Consumers that used ``olds`` use ``news``: several made one (tied), or one made several (untied)."""

    how: str
    olds: tuple[NodeRef, ...]
    news: tuple[NodeRef, ...]


class GraphDiff(msgspec.Struct, frozen=True):
    """What differs. ``outputs`` and ``attributes`` are the graph's own. True when anything does, names included."""

    added: tuple[NodeRef, ...] = ()
    removed: tuple[NodeRef, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    changed: tuple[Changed, ...] = ()
    ties: tuple[TieMoved, ...] = ()
    outputs: tuple[Change, ...] = ()
    attributes: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)

    def nameless(self) -> GraphDiff:
        """The same without what differs in names alone."""
        return msgspec.structs.replace(self, renamed=())


class Twins(msgspec.Struct, frozen=True, eq=False):
    """Nodes of the left graph with their counterparts: one branch. ``names`` are those that counterparts should bear."""

    label: str
    images: Mapping[Node, Node]
    names: Mapping[Node, str] = {}
    prefix: str = ""

    def expected(self, node: Node) -> str:
        """The name that the counterpart of ``node`` should bear."""
        return self.names[node] if node in self.names else self.prefix + node.name


def compare(left: Graph, right: Graph, branches: Sequence[Twins]) -> GraphDiff:
    """What differs between ``left`` and ``right``, whose nodes ``branches`` pair; a left node may stand in several."""
    ids = _Ids(left, right)
    everywhere: dict[Node, dict[Node, None]] = {}
    for branch in branches:
        for a, b in branch.images.items():
            everywhere.setdefault(a, {})[b] = None
    reached = {b for branch in branches for b in branch.images.values()}
    renamed, changed = [], []
    for branch in branches:
        for a in left.nodes:
            if a not in branch.images:
                continue
            b = branch.images[a]
            found = tuple(_node_changes(a, b, branch, everywhere))
            if b.name != branch.expected(a):
                renamed.append(Renamed(ids.old(a), ids.new(b)))
            if found:
                changed.append(Changed(ids.old(a), ids.new(b), found))
    return GraphDiff(
        added=tuple(ids.new(node) for node in right.nodes if node not in reached),
        removed=tuple(ids.old(node) for node in left.nodes if node not in everywhere),
        renamed=tuple(dict.fromkeys(renamed)),
        changed=tuple(dict.fromkeys(changed)),
        ties=tuple(_ties(left, right, branches, ids)),
        outputs=tuple(_outputs(left, right, branches, everywhere)),
        attributes=tuple(_mapping_changes("graph attribute", left.attrs, right.attrs)),
    )


class _Ids:
    def __init__(self, left: Graph, right: Graph) -> None:
        self._old = {node: i for i, node in enumerate(left.nodes)}
        self._new = {node: i for i, node in enumerate(right.nodes)}

    def old(self, node: Node) -> NodeRef:
        return NodeRef(self._old[node], node.name, node.op)

    def new(self, node: Node) -> NodeRef:
        return NodeRef(self._new[node], node.name, node.op)


def _node_changes(a: Node, b: Node, branch: Twins, everywhere: Mapping[Node, Mapping[Node, None]]) -> Iterator[Change]:
    if a.op != b.op:
        yield Change("operator", "", a.op, b.op)
    if a.attrs is not b.attrs:
        yield from _mapping_changes("attribute", a.attrs, b.attrs)
    yield from _mapping_changes("key", a.extra, b.extra)
    for position in range(max(len(a.inputs), len(b.inputs))):
        x, y = (node.inputs[position] if position < len(node.inputs) else None for node in (a, b))
        if x is None or y is None or not _same_entry(x, y, branch, everywhere):
            yield Change("input", str(position), _spelled(x), _spelled(y))
    olds, news = a.control_deps, b.control_deps
    if len(olds) != len(news) or any(not _is_image(x, y, branch, everywhere) for x, y in zip(olds, news, strict=True)):
        yield Change("control dependencies", "", ", ".join(n.name for n in olds), ", ".join(n.name for n in news))
    yield from _subgraph_changes(a, b)


def _subgraph_changes(a: Node, b: Node) -> Iterator[Change]:
    if len(a.subgraphs) != len(b.subgraphs):
        yield Change("sub-graphs", "", str(len(a.subgraphs)), str(len(b.subgraphs)))
        return
    for number, (x, y) in enumerate(zip(a.subgraphs, b.subgraphs, strict=True)):
        if x is not y and (found := diff_graphs(x, y)):  # a file bounds how deep they nest
            parts = ((len(found.added), "added"), (len(found.removed), "removed"), (len(found.changed), "changed"))
            told = ", ".join(f"{count} {what}" for count, what in parts if count)
            yield Change("sub-graph", str(number), f"{len(x.nodes)} nodes", f"{len(y.nodes)} nodes ({told or 'other names'})")


def _same_entry(x: Entry, y: Entry, branch: Twins, everywhere: Mapping[Node, Mapping[Node, None]]) -> bool:
    return x.index == y.index and _is_image(x.node, y.node, branch, everywhere)


def _is_image(a: Node, b: Node, branch: Twins, everywhere: Mapping[Node, Mapping[Node, None]]) -> bool:
    """Whether ``b`` is what became of ``a`` in this branch; where the branch has nothing of its own, in any."""
    image = branch.images.get(a)
    return image is b if image is not None else b in everywhere.get(a, ())


def _spelled(entry: Entry | None) -> str | None:
    if entry is None:
        return None
    return f"{entry.node.name}[{entry.index}]" if entry.index else entry.node.name


def _mapping_changes(what: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[Change]:
    if old == new:
        return
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            yield Change(what, key, *(None if key not in of else _text(of[key]) for of in (old, new)))


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _outputs(
    left: Graph, right: Graph, branches: Sequence[Twins], everywhere: Mapping[Node, Mapping[Node, None]]
) -> Iterator[Change]:
    """Each branch's outputs in order: the right graph has those of the left one, branch by branch."""
    rights = list(right.heads)
    place = 0
    for branch in branches:
        for head in left.heads:
            if len(branches) > 1 and head.node not in branch.images:
                continue  # a branch need not have all
            other = rights[place] if place < len(rights) else None
            if other is None or not _same_entry(head, other, branch, everywhere):
                yield Change("output", str(place), _spelled(head), _spelled(other))
            place += 1
    for position in range(place, len(rights)):
        yield Change("output", str(position), None, _spelled(rights[position]))


def _ties(left: Graph, right: Graph, branches: Sequence[Twins], ids: _Ids) -> Iterator[TieMoved]:
    """Where variables of paired operators were made one, or one made several."""
    uses = consumers(left.nodes)
    for branch in branches:
        made: dict[Node, dict[Node, None]] = {}
        came: dict[Node, dict[Node, None]] = {}
        for a in left.nodes:
            if a.op != VARIABLE:
                continue
            for consumer, position in uses.get(a, ()):
                twin = branch.images.get(consumer)
                if twin is None or position >= len(twin.inputs) or twin.inputs[position].node.op != VARIABLE:
                    continue
                b = twin.inputs[position].node
                made.setdefault(a, {})[b] = None
                came.setdefault(b, {})[a] = None
        tied = [(b, olds) for b, olds in came.items() if len(olds) > 1]
        yield from (TieMoved("tied", tuple(map(ids.old, olds)), (ids.new(b),)) for b, olds in tied)
        untied = [(a, news) for a, news in made.items() if len(news) > 1]
        yield from (TieMoved("untied", (ids.old(a),), tuple(map(ids.new, news))) for a, news in untied)


def diff_graphs(left: Graph, right: Graph, *, renames: bool = True) -> GraphDiff:
    """What differs between two graphs; :mod:`graphshare.differences.alignment` pairs their nodes."""
    return compare(left, right, [Twins("", align(left, right, renames=renames).images)])
