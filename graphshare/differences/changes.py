"""The changes between two graphs whose nodes are paired.

Differences in node order, layout, an entry's mutation version, and expected names are not changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

import msgspec

from graphshare.differences.alignment import align_bodies, list_counterparts
from graphshare.formats.model_format import find_statement_changes
from graphshare.ir.compare import Change, find_content_changes
from graphshare.ir.graph import EMPTY, VARIABLE_OP, Entry, Graph, Node
from graphshare.ir.walk import consumers, own_inputs
from graphshare.ops.normalization.signature import BARRIER, BARRIER_KEYS
from graphshare.text.format import format_count
from graphshare.text.summary import ShortRepr, Table, format_html


class NodeRef(msgspec.Struct, frozen=True):
    """A node by its id in the file, its name and its operator (``null`` for a variable)."""

    id: int
    name: str
    op: str


class Renamed(msgspec.Struct, frozen=True):
    """A node with an unexpected name."""

    old: NodeRef
    new: NodeRef


class Changed(msgspec.Struct, frozen=True):
    """A node whose values differ from its counterpart's."""

    old: NodeRef
    new: NodeRef
    changes: tuple[Change, ...]


class TieMoved(msgspec.Struct, frozen=True):
    """Consumers of ``olds`` now use ``news``: several variables became one (tied), or one several
    (untied).
    """

    how: str
    olds: tuple[NodeRef, ...]
    news: tuple[NodeRef, ...]


class GraphDiff(ShortRepr, msgspec.Struct, frozen=True):
    """The changes of a graph; true if there is any. ``outputs`` and ``attributes`` belong to the
    graph itself.
    """

    added: tuple[NodeRef, ...] = ()
    removed: tuple[NodeRef, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    changed: tuple[Changed, ...] = ()
    ties: tuple[TieMoved, ...] = ()
    outputs: tuple[Change, ...] = ()
    attributes: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)

    def make_table(self) -> Table:
        rows = [("removed", format_node(node), "") for node in self.removed]
        rows += [("added", format_node(node), "") for node in self.added]
        rows += [("renamed", format_node(pair.old), pair.new.name) for pair in self.renamed]
        rows += [
            ("changed", format_node(pair.new), "; ".join(map(format_change, pair.changes)))
            for pair in self.changed
        ]
        rows += [(tie.how, format_tie(tie), "") for tie in self.ties]
        rows += [
            ("graph", format_change(change), "") for change in (*self.outputs, *self.attributes)
        ]
        return Table(("change", "what", "now"), rows)

    def _repr_html_(self) -> str:
        return format_html(self._summary() or "no change", tables=[self.make_table()])

    def without_names(self) -> GraphDiff:
        return msgspec.structs.replace(self, renamed=())


class PairedBranch(msgspec.Struct, frozen=True, eq=False):
    """One branch: nodes of the left graph with their counterparts, and the ``names`` expected of
    these.
    """

    label: str
    images: Mapping[Node, Node]
    names: Mapping[Node, str] = {}
    prefix: str = ""

    def find_expected_name(self, node: Node) -> str:
        return self.names[node] if node in self.names else self.prefix + node.name

    def list_pairs(self, nodes: Iterable[Node]) -> Iterator[tuple[Node, Node]]:
        """Yield ``nodes`` and their counterparts, where they have one."""
        return ((node, self.images[node]) for node in nodes if node in self.images)


def list_changes(left: Graph, right: Graph, branches: Sequence[PairedBranch]) -> GraphDiff:
    """Return the changes from ``left`` to ``right``; a left node may be in several branches."""
    ids = _Ids(left, right)
    pairs = [pair for branch in branches for pair in branch.images.items()]
    reached = {b for _, b in pairs}
    counterparts: dict[Node, set[Node]] = {}
    for a, b in pairs:
        counterparts.setdefault(a, set()).add(b)
    renamed, changed = [], []
    pairings = [_Pairing(branch, counterparts) for branch in branches]
    for pairing in pairings:
        for a, b in pairing.branch.list_pairs(left.nodes):
            changes = tuple(_find_node_changes(a, b, pairing))
            if b.name != pairing.branch.find_expected_name(a):
                renamed.append(Renamed(ids.old(a), ids.new(b)))
            if changes:
                changed.append(Changed(ids.old(a), ids.new(b), changes))
    return GraphDiff(
        added=tuple(ids.new(node) for node in right.nodes if node not in reached),
        removed=tuple(ids.old(node) for node in left.nodes if node not in counterparts),
        # Branches may share nodes: each is reported once.
        renamed=tuple(dict.fromkeys(renamed)),
        changed=tuple(dict.fromkeys(changed)),
        ties=tuple(_find_moved_ties(left, branches, ids)),
        outputs=tuple(_find_output_changes(left, right, pairings)),
        attributes=(
            *_find_mapping_changes("graph attribute", left.attrs, right.attrs),
            *find_statement_changes(left, right, pairs),
        ),
    )


class _Pairing(msgspec.Struct, frozen=True, eq=False):
    """Counterparts in one branch; shared nodes without one there have any branch's."""

    branch: PairedBranch
    counterparts: Mapping[Node, Collection[Node]]

    def has_pair(self, a: Node, b: Node) -> bool:
        image = self.branch.images.get(a)
        return image is b if image is not None else b in self.counterparts.get(a, ())

    def has_entries(self, x: Entry | None, y: Entry | None) -> bool:
        """Whether ``y`` is the counterpart of the value ``x``."""
        if x is None or y is None:
            return False
        return x.index == y.index and self.has_pair(x.node, y.node)


class _Ids:
    def __init__(self, left: Graph, right: Graph) -> None:
        self._old = {node: i for i, node in enumerate(left.nodes)}
        self._new = {node: i for i, node in enumerate(right.nodes)}

    def old(self, node: Node) -> NodeRef:
        return NodeRef(self._old[node], node.shown_name, node.operator_text)

    def new(self, node: Node) -> NodeRef:
        return NodeRef(self._new[node], node.shown_name, node.operator_text)


def _find_node_changes(a: Node, b: Node, pairing: _Pairing) -> Iterator[Change]:
    exempt = BARRIER_KEYS if _has_prefixed_barrier(a, b, pairing.branch.label) else EMPTY
    for change in find_content_changes(a, b, exempt):
        if change.what == "operator":
            yield Change("operator", "", a.operator_text, b.operator_text)
        else:
            yield change
    yield from _find_mapping_changes("key", a.extra, b.extra)
    for position, (x, y) in enumerate(zip_longest(own_inputs(a), own_inputs(b))):
        if not pairing.has_entries(x, y):
            yield Change("input", str(position), _format_entry(x), _format_entry(y))
    olds, news = a.control_deps, b.control_deps
    if len(olds) != len(news) or not all(map(pairing.has_pair, olds, news)):
        yield Change("control dependencies", "", _join_names(olds), _join_names(news))
    if a.subgraphs or b.subgraphs:
        yield from _find_subgraph_changes(a, b, pairing)


def _has_prefixed_barrier(a: Node, b: Node, label: str) -> bool:
    """Whether the keys of two SyncBatchNorm nodes differ only by the branch's prefix.

    A copy needs a key of its own: `duplicate` and `group` put the prefix of the names before it.
    """
    op, key = BARRIER
    if a.op != op or key not in a.attrs:
        return False
    prefix = label
    if a.name and b.name.endswith(a.name):
        prefix = b.name.removesuffix(a.name)
    return b.attrs.get(key) == prefix + a.attrs[key]


def _find_subgraph_changes(a: Node, b: Node, pairing: _Pairing) -> Iterator[Change]:
    if len(a.subgraphs) != len(b.subgraphs):
        yield Change("subgraphs", "", str(len(a.subgraphs)), str(len(b.subgraphs)))
        return
    for key, x, y, images in align_bodies(a, b, pairing.branch.images):
        # Captures have numbers for names, which no file stores: they are not compared.
        names = {capture: images[capture].name for capture in x.captured if capture in images}
        diff = GraphDiff()
        if x.graph is not y.graph:  # the file's nesting bounds this recursion
            diff = list_changes(x.graph, y.graph, [PairedBranch("", images, names)]).without_names()
        if diff:
            old, new = (format_count(len(body.graph.nodes), "node") for body in (x, y))
            yield Change("sub-graph", key, old, f"{new} ({_summarize(diff)})")
        for capture, entry in x.captured.items():
            other = y.captured.get(images.get(capture, capture))
            if other is not None and not pairing.has_entries(entry, other):
                yield Change(
                    "input", f"of sub-graph {key}", _format_entry(entry), _format_entry(other)
                )


def _summarize(diff: GraphDiff) -> str:
    parts = [
        (len(diff.added), "added"),
        (len(diff.removed), "removed"),
        (len(diff.changed), "changed"),
    ]
    texts = [f"{count} {what}" for count, what in parts if count]
    texts += [format_change(change) for change in (*diff.outputs, *diff.attributes)]
    return ", ".join(texts)


def _format_entry(entry: Entry | None) -> str | None:
    if entry is None:
        return None
    name = entry.node.shown_name
    return f"{name}[{entry.index}]" if entry.index else name


def _find_mapping_changes(
    what: str, old: Mapping[str, object], new: Mapping[str, object]
) -> Iterator[Change]:
    if old == new:
        return
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            yield Change(what, key, _format_item(old, key), _format_item(new, key))


def _format_item(mapping: Mapping[str, object], key: str) -> str | None:
    if key not in mapping:
        return None
    value = mapping[key]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _find_output_changes(
    left: Graph, right: Graph, pairings: Sequence[_Pairing]
) -> Iterator[Change]:
    """The right graph should have the outputs of the left one, branch by branch."""
    expected: list[tuple[_Pairing, Entry]] = []
    for pairing in pairings:
        heads: Sequence[Entry] = left.heads
        if len(pairings) > 1:  # a branch may lack outputs
            heads = [head for head in heads if head.node in pairing.branch.images]
        expected += [(pairing, head) for head in heads]
    for position, (pair, other) in enumerate(zip_longest(expected, right.heads)):
        if pair is None:
            yield Change("output", str(position), None, _format_entry(other))
            continue
        pairing, head = pair
        if not pairing.has_entries(head, other):
            yield Change("output", str(position), _format_entry(head), _format_entry(other))


def _find_moved_ties(
    left: Graph, branches: Sequence[PairedBranch], ids: _Ids
) -> Iterator[TieMoved]:
    uses = consumers(left.nodes)
    for branch in branches:
        images: dict[Node, dict[Node, None]] = {}
        origins: dict[Node, dict[Node, None]] = {}
        for a, b in _pair_variables(left, uses, branch):
            images.setdefault(a, {})[b] = None
            origins.setdefault(b, {})[a] = None
        for b, olds in origins.items():
            if len(olds) > 1:
                yield TieMoved("tied", tuple(map(ids.old, olds)), (ids.new(b),))
        for a, news in images.items():
            if len(news) > 1:
                yield TieMoved("untied", (ids.old(a),), tuple(map(ids.new, news)))


def _pair_variables(
    left: Graph, uses: Mapping[Node, Sequence[tuple[Node, int]]], branch: PairedBranch
) -> Iterator[tuple[Node, Node]]:
    """Yield the left and right variable of each place in which paired operators read both."""
    inputs: dict[Node, Sequence[Entry | None]] = {}  # of operators with subgraphs
    for variable in left.variables():
        for consumer, position in uses.get(variable, ()):
            image = branch.images.get(consumer)
            if image is None:
                continue
            if consumer.subgraphs and consumer not in inputs:
                inputs[consumer] = list_counterparts(consumer, image, branch.images)
            twins = inputs.get(consumer, image.inputs)
            entry = twins[position] if position < len(twins) else None
            if entry is not None and entry.node.is_variable:
                yield variable, entry.node


def format_node(node: NodeRef) -> str:
    """Return the operator, or the word variable, and the name."""
    op = "variable" if node.op == VARIABLE_OP else node.op
    return f"{op} {node.name or '(no name)'}"


def format_change(change: Change) -> str:
    """Describe a change, with both values."""
    name = f"{change.what} {change.key}".rstrip()
    return f"{name}: {format_values(change.old, change.new)}"


def format_values(old: str | None, new: str | None) -> str:
    """Return both values of a change; ``none`` for a missing one, quotes for an empty one."""
    texts = ["none" if value is None else value or "''" for value in (old, new)]
    return " -> ".join(texts)


def format_tie(tie: TieMoved) -> str:
    """Return the names of a tie's variables before and after."""
    return f"{_join_names(tie.olds)} -> {_join_names(tie.news)}"


def _join_names(nodes: Iterable[Node | NodeRef]) -> str:
    return ", ".join(node.name for node in nodes)
