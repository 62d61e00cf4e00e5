"""One run for several branches: inputs joined on the axis of their samples, outputs split again. And the way back.

The joining Concat is called ``<input>_batch`` and the splitting SliceChannel ``<operator>_split``; the operator behind a head
becomes ``<operator>_batch``, so that its outputs' names belong to the branches as they do in the other modes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from graphshare.analysis.implied import implied_inputs, implies_variables
from graphshare.analysis.name_lists import output_name
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite
from graphshare.ir.rebuild import rebuild, relink
from graphshare.ir.walk import post_order, topological
from graphshare.rewrite.naming import check_collisions, check_prefixes

BRANCHES = "__branches__"
"""The attribute of the added Concat and SliceChannel nodes: the branches' prefixes as JSON, in the order of the samples."""
_SUFFIX = "_output"


class Joined(msgspec.Struct, frozen=True, eq=False):
    """How an input is joined: on ``axis``; ``shared`` means that all branches use one variable."""

    axis: int = 0
    shared: bool = False


def batch(
    graph: Graph,
    prefixes: Sequence[str],
    *,
    inputs: Mapping[Node, Joined],
    outputs: Mapping[tuple[Node, int], int],
    drop_original: bool = False,
) -> Rewrite:
    """``graph`` run once for the original and a branch for each prefix, or for the prefixes alone with ``drop_original``.

    ``inputs`` are the variables that bear a batch. ``outputs`` are the heads that do, by node and index, with the axis of the
    samples; a head that is not among them has one value for all branches. Heads are the branches' in turn.

    Raises:
        RefusedError: a prefix is unusable, names collide, or an operator behind a head implies states by its name.
    """
    check_prefixes(prefixes)
    labels = [*([] if drop_original else [""]), *prefixes]
    work = _Batch(graph, labels, inputs, outputs)
    work.check_names()
    nodes = [*work.inputs(), *work.operators()]
    heads = [work.head(entry, label) for label in labels for entry in graph.heads]
    nodes += work.added
    result = Graph(tuple(nodes), tuple(heads), graph.attrs, graph.source.after_rewrite(), graph.extra)
    return Rewrite(result, tuple(Branch(label, graph, work.images(label)) for label in labels))


class _Batch:
    """The batched graph while it is made."""

    def __init__(
        self, graph: Graph, labels: Sequence[str], inputs: Mapping[Node, Joined], outputs: Mapping[tuple[Node, int], int]
    ) -> None:
        self._graph, self._labels, self._inputs, self._outputs = graph, labels, inputs, outputs
        self._variables: dict[tuple[str, Node], Node] = {}
        self._joined: dict[Node, Node] = {}
        self._new: dict[Node, Node] = {}
        self._splits: dict[tuple[Node, int], Node] = {}
        self._copies: dict[tuple[str, Node, int], Entry] = {}
        self._headed = {entry.node for entry in graph.heads if not entry.node.is_variable}
        self._consumed = {entry.node for node in graph.nodes for entry in node.inputs}
        self.added: list[Node] = []
        self._mark = json.dumps(list(labels), separators=(",", ":"))

    def check_names(self) -> None:
        """Refuses names that two nodes would have, and heads whose operator implies states by its name."""
        if implies_variables(self._graph):
            implying = [node for node in self._headed if any(implied_inputs(node))]
            hint = "run `graphshare upgrade` first, or add --upgrade: it gives the states nodes of their own"
            faults = [
                Fault("implies states by its name, and a batch changes that name", node=n.name, hint=hint) for n in implying
            ]
            if faults:
                raise RefusedError(faults)
        renamed = []
        for node, joined in self._inputs.items():
            renamed += [(node.name, label + node.name) for label in self._labels if label and not joined.shared]
            renamed.append((f"the batch of {node.name}", _batched(node)))
        for node in self._headed:
            renamed.append((f"the batch of {node.name}", _batched(node)))
        for entry in self._graph.heads:
            if entry.node in self._headed:
                base = _branch_name(entry)
                renamed += [(base, label + base) for label in self._labels if label and base]
                if (entry.node, entry.index) in self._outputs:
                    renamed.append((f"the parts of {base}", _split_name(entry)))
        check_collisions((node.name for node in self._graph.nodes), renamed)

    def inputs(self) -> Iterator[Node]:
        """The branches' variables and the nodes that join them, in file order."""
        for node, joined in self._inputs.items():
            for label in self._labels:
                variable = node if joined.shared or not label else replace(node, name=label + node.name)
                self._variables[label, node] = variable
            variables = [self._variables[label, node] for label in self._labels]
            yield from dict.fromkeys(variables)
            if node not in self._consumed:
                continue
            attrs = {BRANCHES: self._mark, "dim": str(joined.axis), "num_args": str(len(variables))}
            concat = Node("Concat", _batched(node), attrs, tuple(self._entry(v) for v in variables), 1)
            self._joined[node] = concat
            yield concat

    def operators(self) -> Iterator[Node]:
        """The original's nodes, those behind a head under another name."""
        nodes = [node for node in topological(self._graph) if node not in self._inputs]
        self._new = rebuild(nodes, self._change, redirect=self._redirect)
        yield from self._new.values()

    def _change(self, node: Node) -> Node:
        return replace(node, name=_batched(node)) if node in self._headed else node

    def _redirect(self, entry: Entry, _: Node) -> Entry | None:
        joined = self._joined.get(entry.node)
        return None if joined is None else Entry(joined, entry.index, entry.version)

    def head(self, entry: Entry, label: str) -> Entry:
        """A branch's own head: its part of the output that all branches computed together."""
        node, key = entry.node, (entry.node, entry.index)
        if node in self._inputs:
            return self._entry(self._variables[label, node])
        if node.is_variable:
            return entry
        done = self._copies.get((label, node, entry.index))
        if done is not None:
            return done
        whole = Entry(self._new[node], entry.index, entry.version)
        axis = self._outputs.get(key)
        if axis is not None:
            split = self._splits.get(key)
            if split is None:
                count = len(self._labels)
                attrs = {BRANCHES: self._mark, "axis": str(axis), "num_outputs": str(count)}
                split = self._splits[key] = Node("SliceChannel", _split_name(entry), attrs, (whole,), count)
                self.added.append(split)
            whole = Entry(split, self._labels.index(label), entry.version)
        base = _branch_name(entry)
        copy = Node("_copy", label + base if base else "", inputs=(whole,), num_outputs=1)
        self.added.append(copy)
        self._copies[label, node, entry.index] = found = self._entry(copy)
        return found

    def images(self, label: str) -> dict[Node, Node]:
        """What the nodes of the graph became in a branch: its own variables, and the operators of all branches."""
        return {node: self._variables.get((label, node)) or self._new[node] for node in self._graph.nodes}

    def _entry(self, node: Node) -> Entry:
        """An entry as this file writes them: two numbers or three."""
        short = any(entry.version is None for entry in self._graph.heads)
        return Entry(node, 0, None if short else 0)


def _batched(node: Node) -> str:
    return f"{node.name}_batch" if node.name else ""


def _branch_name(entry: Entry) -> str:
    """What a branch's copy of an output is called: as its operator, so that the output is called as before.

    Of an operator with several outputs it is the output's own name.
    """
    name = output_name(entry)
    if not entry.node.name:
        return ""
    return entry.node.name if name == entry.node.name + _SUFFIX else name


def _split_name(entry: Entry) -> str:
    base = _branch_name(entry)
    return f"{base}_split" if base else ""


class Batched(msgspec.Struct, frozen=True, eq=False):
    """A batched graph as read back: the branches' ``labels``, what joins and what splits them."""

    graph: Graph
    labels: tuple[str, ...]
    joins: tuple[Node, ...]
    splits: tuple[Node, ...]


def find_batch(graph: Graph) -> Batched | None:
    """The branches of a graph that :func:`batch` made, from the marks it left; None where there are none."""
    marked = [n for n in post_order(e.node for e in graph.heads) if BRANCHES in n.attrs and n.op in ("Concat", "SliceChannel")]
    if not marked:
        return None
    try:
        labels = msgspec.json.decode(marked[0].attrs[BRANCHES], type=list[str])
    except (msgspec.DecodeError, UnicodeError):
        return None
    if not labels or len(set(labels)) < len(labels):
        return None
    joins = tuple(node for node in marked if node.op == "Concat")
    return Batched(graph, tuple(labels), joins, tuple(node for node in marked if node.op == "SliceChannel"))


def single_run(found: Batched, number: int) -> tuple[Graph, dict[Node, Node]]:
    """The graph of one branch alone: its own inputs in place of the joined ones, its heads without the split.

    Also gives, for each node of the batched graph that stays, what it became.
    """
    skipped = {**dict.fromkeys(found.joins, number), **dict.fromkeys(found.splits, 0)}
    images: dict[Node, Node] = {}

    def redirect(entry: Entry, _: Node | None = None) -> Entry:
        while entry.node in skipped:
            entry = entry.node.inputs[skipped[entry.node]]
        return relink(entry, images)

    per_branch = len(found.graph.heads) // len(found.labels)
    heads = found.graph.heads[number * per_branch : (number + 1) * per_branch]
    nodes = [node for node in post_order(entry.node for entry in heads) if node not in skipped]
    rebuild(nodes, redirect=redirect, images=images)
    new = tuple(map(redirect, heads))
    kept = tuple(post_order(entry.node for entry in new))
    return Graph(kept, new, found.graph.attrs, found.graph.source.after_rewrite()), images
