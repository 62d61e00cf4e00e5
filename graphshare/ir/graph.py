"""The graph: frozen nodes compared by identity, object references as edges, images in a rewrite.

A name identifies nothing: two variables may share one (docs/how-it-works.md).

The garbage collector does not track these Structs: a frozen graph has no cycles, and a million
tracked nodes would slow it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import msgspec

from graphshare.text.format import format_count, format_names, shorten
from graphshare.text.summary import LONGEST_NAME, ShortRepr, Table, format_html, quote_name

_HOW_TO_EDIT = (
    "mappings of a graph are read-only; give graphshare.ir.rebuild.rebuild_graph a new node, "
    "msgspec.structs.replace(node, attrs={**node.attrs, KEY: TEXT}), or edit an ONNX model with the package onnx"
)


class FrozenMap(dict[Any, Any]):
    """A read-only mapping: equal attributes of a file are one object, so a change would reach other
    nodes.
    """

    __slots__ = ()

    def _refuse(self, *args: Any, **named: Any) -> NoReturn:
        raise TypeError(_HOW_TO_EDIT)

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze, (dict(self),)


EMPTY: Mapping[Any, Any] = FrozenMap()


def freeze(values: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a read-only mapping that is equal to ``values``."""
    return FrozenMap(values) if values else EMPTY


class Entry(ShortRepr, msgspec.Struct, frozen=True, eq=False, gc=False):
    """An input edge (NNVM's NodeEntry): output ``index`` of ``node``.

    ``version`` counts in-place mutations of a variable, as read; None if the file had two numbers
    instead of three (2015 generation).
    """

    node: Node
    index: int = 0
    version: int | None = 0

    def _summary(self) -> str:
        return f"output {self.index} of {self.node._summary()}"


class NodeForm(msgspec.Struct, frozen=True):
    """How a node was written: its keys in file order, and names under ``param`` beside an ``attr``
    map.

    Values that ``attr`` overrides are under ``param`` in the node's extra keys.
    """

    keys: tuple[str, ...]
    param: tuple[str, ...] | None = None


VARIABLE_OP = "null"
"""The operator that files write for a variable."""
MXNET_DOMAIN = "mxnet"
"""The domain of MXNet's operators."""


class NodeDetails(msgspec.Struct, frozen=True):
    """Facts about a node that only some formats record. Defaults match MXNet.

    ``domain`` and ``op`` identify an operator: ``mxnet``, or the namespace in an ONNX file.
    ``outputs`` are the names of its outputs: ONNX names values, so a node's ``name`` is its first
    output's, and ``label`` the operator's own, to which no file refers. ``values`` are typed
    attributes (hashable, compared by ``==``), and ``bodies`` the names of the attributes that hold
    the subgraphs, one for each. ``absent`` are the positions of missing inputs in the file;
    ``inputs`` omits them. ``holds_value`` is whether a variable's value is in the graph's file (an
    initializer); None in formats whose files never hold values. ``stored`` is the format's own
    data, opaque to transforms.

    In a subgraph, initializers have a ``value`` and inputs a ``position`` among their ``values``.
    """

    domain: str = MXNET_DOMAIN
    outputs: tuple[str, ...] = ()
    values: Mapping[str, Any] = EMPTY
    absent: tuple[int, ...] = ()
    label: str = ""
    holds_value: bool | None = None
    stored: Any = None
    bodies: tuple[str, ...] = ()

    def __reduce__(self) -> str | tuple[Any, ...]:
        # Copies and pickles keep this object's identity: it means that a format adds nothing.
        return "NO_DETAILS" if self is NO_DETAILS else super().__reduce__()


NO_DETAILS = NodeDetails()
"""The details of every node of a symbol file, one object."""


class Node(ShortRepr, msgspec.Struct, frozen=True, eq=False, gc=False):
    """A variable (``op`` is empty), or the application of an operator.

    ``num_outputs`` counts all outputs, hidden ones included; None if unknown. ``extra`` holds
    unknown keys in file order. ``form`` is None for a node that was not read. Subgraphs are whole
    graphs; their names never change (they bind by position).
    """

    op: str
    name: str
    attrs: Mapping[str, str] = EMPTY
    inputs: tuple[Entry, ...] = ()
    num_outputs: int | None = None
    control_deps: tuple[Node, ...] = ()
    subgraphs: tuple[Graph, ...] = ()
    extra: Mapping[str, Any] = EMPTY
    form: NodeForm | None = None
    details: NodeDetails = NO_DETAILS

    @property
    def is_variable(self) -> bool:
        """Whether this is a variable. Loops over large graphs test ``not node.op``: it is
        faster.
        """
        return not self.op

    @property
    def operator_text(self) -> str:
        """The operator as files write it; for variables outside of MXNet their role."""
        if self.op or self.details.domain == MXNET_DOMAIN:
            return self.op or VARIABLE_OP
        # Only Paddle's variables have a domain: in ONNX they are not operators.
        return (
            ("parameter" if self.details.domain else "initializer")
            if self.details.holds_value
            else "input"
        )

    @property
    def shown_name(self) -> str:
        """The name for people: the first output's where nodes have no names."""
        return self.name or next(filter(None, self.details.outputs), "")

    def _summary(self) -> str:
        return f"{shorten(self.op, LONGEST_NAME) or 'variable'} {quote_name(self.shown_name)}"


class Source(ShortRepr, msgspec.Struct, frozen=True):
    """The format of a graph's file, and how the file was written. Transforms pass it on unread.

    Formats have subclasses; this class is for graphs without a file. ``format`` names the format
    (:mod:`graphshare.formats.model_format`). ``version_key`` is the graph attribute with the
    writer's version, as ``["int", version]``; empty if none.
    """

    format: ClassVar[str] = "mxnet"
    version_key: ClassVar[str] = ""

    def after_rename(self, images: Mapping[Node, Node] | None = None) -> Source:
        """Return this source for renamed nodes. ``images`` maps old nodes to new ones."""
        return self

    def after_rewrite(
        self, images: Mapping[Node, Node] | None = None, *, unchanged: int = 0
    ) -> Source:
        """Return this source for different nodes; the first ``unchanged`` are as read."""
        return self

    def after_join(self, others: Sequence[Source]) -> Source:
        """Return the source of a graph joined with graphs of ``others``."""
        return self

    def mismatches(self, other: Source) -> Iterator[tuple[str, str]]:
        """Yield reasons why graphs of ``other`` cannot be in this file, each with a fix."""
        return iter(())

    def count_parts(self, nodes: Collection[Node]) -> Mapping[str, int]:
        """Count nodes by the format's own categories."""
        return {"node": len(nodes)}

    def describe_parts(self, nodes: Collection[Node]) -> str:
        return " and ".join(
            format_count(count, what) for what, count in self.count_parts(nodes).items()
        )

    def list_labels(self, graph: Graph) -> Mapping[Node, str]:
        """Return node names, apart from value names, that must be unique."""
        return EMPTY

    def name_faults(self, graph: Graph) -> Iterator[tuple[str, str, Node]]:
        """Yield names that the format forbids: a sentence, a fix, and the node."""
        return iter(())

    def list_notes(self) -> Iterator[str]:
        """Yield remarks for the user who writes a rewritten graph."""
        return iter(())


class Graph(ShortRepr, msgspec.Struct, frozen=True, eq=False, gc=False):
    """``nodes`` in file order (inputs may come after consumers), ``heads`` the outputs, ``attrs``
    the graph's own.

    ``captures`` are subgraph variables bound to values of the enclosing graph. Their entries are
    the last inputs of the node that owns the subgraph (of several subgraphs in turn), so every walk
    and rewrite follows them.
    """

    nodes: tuple[Node, ...]
    heads: tuple[Entry, ...]
    attrs: Mapping[str, Any] = EMPTY
    source: Source = Source()
    extra: Mapping[str, Any] = EMPTY
    captures: tuple[Node, ...] = ()

    def _summary(self) -> str:
        return f"{self.source.describe_parts(self.nodes)}, {format_count(len(self.heads), 'head')}"

    @property
    def version(self) -> int | None:
        """The writer's version (MXNet: major*10000 + minor*100 + patch)."""
        value = self.attrs.get(self.source.version_key)
        return (
            value[1]
            if isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[1], int)
            else None
        )

    def variables(self) -> Iterator[Node]:
        return (node for node in self.nodes if not node.op)

    def make_table(self) -> Table:
        counts = Counter(node.op for node in self.nodes if node.op).most_common()
        return Table(("operator", "count"), [(op, f"{count:,}") for op, count in counts])

    def _repr_html_(self) -> str:
        facts = [("variables", format_names(node.name for node in self.variables()))]
        facts.append(("heads", format_names(entry.node.name for entry in self.heads)))
        return format_html(self._summary(), facts=facts, tables=[self.make_table()])


class Branch(ShortRepr, msgspec.Struct, frozen=True, eq=False, gc=False):
    """The image of one source graph in one branch of a rewrite.

    ``images`` maps source nodes to new ones; dropped nodes are absent. ``label`` names the branch:
    the prefix of a copy, or empty.
    """

    label: str
    source: Graph
    images: Mapping[Node, Node]

    def _summary(self) -> str:
        return f"{quote_name(self.label)}, {format_count(len(self.images), 'node')}"


class Kept(Mapping[Node, Node]):
    """The images of a branch that kept every node of a graph."""

    __slots__ = ("_graph",)

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __getitem__(self, node: Node) -> Node:
        return node

    def __contains__(self, node: object) -> bool:
        # Callers ask about nodes of this graph only; a set is the table that this class saves.
        return isinstance(node, Node)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._graph.nodes)

    def __len__(self) -> int:
        return len(self._graph.nodes)


class Rename(msgspec.Struct, frozen=True):
    """The new name of an implied auxiliary state (one without a node) in ``branch``."""

    branch: str
    old: str
    new: str


class Rewrite(ShortRepr, msgspec.Struct, frozen=True, eq=False, gc=False):
    """The result of every transform: the new graph, and for each branch the images of its nodes.

    ``notes`` are for the user. A transform with more results returns a subclass.
    """

    graph: Graph
    branches: tuple[Branch, ...]
    renames: tuple[Rename, ...] = ()
    notes: tuple[str, ...] = ()

    def _summary(self) -> str:
        return f"{self.graph._summary()}, {len(self.branches)} branch{'' if len(self.branches) == 1 else 'es'}"

    def images(self, source: Graph, node: Node) -> list[tuple[str, Node]]:
        """Return the ``(branch, new node)`` pairs for ``node``; empty if dropped."""
        return [
            (b.label, b.images[node])
            for b in self.branches
            if b.source is source and node in b.images
        ]

    @property
    def origin(self) -> dict[Node, list[tuple[Graph, Node]]]:
        """The source nodes of each new node; added nodes are absent."""
        origin: dict[Node, list[tuple[Graph, Node]]] = {}
        for branch in self.branches:
            for old, new in branch.images.items():
                origin.setdefault(new, []).append((branch.source, old))
        return origin

    def then(self, later: Rewrite) -> Rewrite:
        """Return this rewrite followed by ``later``, a rewrite of this one's graph.

        A branch of the result joins a branch of each. Its label is the later label followed by the
        first one, as in names.
        """
        joined: list[Branch] = []
        renames: list[Rename] = []
        later_names = {(r.branch, r.old): r.new for r in later.renames}
        followed: set[tuple[str, str]] = set()
        for first in self.branches:
            names = {r.old: r.new for r in self.renames if r.branch == first.label}
            for second in later.branches:
                if second.source is not self.graph:
                    continue
                images = {
                    old: second.images[new]
                    for old, new in first.images.items()
                    if new in second.images
                }
                # Map files, feeds and reports would take two branches of one label for one.
                label = second.label + first.label
                joined.append(Branch(label, first.source, images))
                # An implied state has no node to map: renames are joined by name.
                renames += [
                    Rename(label, old, later_names.get((second.label, new), new))
                    for old, new in names.items()
                ]
                followed.update((second.label, new) for new in names.values())
        # This rewrite did not touch the graphs of other branches.
        foreign = [b for b in later.branches if b.source is not self.graph]
        renames += [Rename(*key, new) for key, new in later_names.items() if key not in followed]
        return Rewrite(
            later.graph, (*joined, *foreign), tuple(renames), (*self.notes, *later.notes)
        )
