"""A batched graph read back: its branches, and the graph of each branch alone."""

from __future__ import annotations

import msgspec

from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.rebuild import rebuild, relink
from graphshare.ir.walk import post_order

BRANCHES = "__branches__"
"""The attribute of the added Concat and SliceChannel nodes: the branches' prefixes as JSON, in the order of the samples."""


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
