"""Find the branches of a batched graph, and the graph of each branch alone."""

from __future__ import annotations

import msgspec

from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.rebuild import rebuild, relink
from graphshare.ir.walk import post_order

BRANCHES = "__branches__"
"""The prefixes of the branches as JSON, in order: an attribute of the added Concat and
SliceChannel.
"""


class Batched(msgspec.Struct, frozen=True, eq=False):
    """A batched graph: the ``labels`` of its branches, the Concat nodes and the SliceChannel nodes."""

    graph: Graph
    labels: tuple[str, ...]
    joins: tuple[Node, ...]
    splits: tuple[Node, ...]


def find_batch(graph: Graph) -> Batched | None:
    """Find the branches of a batched graph by the marks of its nodes; None without marks."""
    marked = [
        n
        for n in post_order(e.node for e in graph.heads)
        if BRANCHES in n.attrs and n.op in ("Concat", "SliceChannel")
    ]
    if not marked:
        return None
    try:
        labels = msgspec.json.decode(marked[0].attrs[BRANCHES], type=list[str])
    except (msgspec.DecodeError, UnicodeError):
        return None
    if not labels or len(set(labels)) < len(labels):
        return None
    joins = tuple(node for node in marked if node.op == "Concat")
    return Batched(
        graph, tuple(labels), joins, tuple(node for node in marked if node.op == "SliceChannel")
    )


def single_run(batched: Batched, number: int) -> tuple[Graph, dict[Node, Node]]:
    """Return the graph of one branch, with its own inputs and heads, and the images of kept nodes."""
    # The branch's own input replaces a Concat, the undivided value a SliceChannel.
    skipped = {**dict.fromkeys(batched.joins, number), **dict.fromkeys(batched.splits, 0)}
    images: dict[Node, Node] = {}

    def redirect(entry: Entry, _: Node | None = None) -> Entry:
        while entry.node in skipped:
            entry = entry.node.inputs[skipped[entry.node]]
        return relink(entry, images)

    per_branch = len(batched.graph.heads) // len(batched.labels)
    heads = batched.graph.heads[number * per_branch : (number + 1) * per_branch]
    nodes = [node for node in post_order(entry.node for entry in heads) if node not in skipped]
    rebuild(nodes, redirect=redirect, images=images)
    new = tuple(map(redirect, heads))
    kept = tuple(post_order(entry.node for entry in new))
    return msgspec.structs.replace(
        batched.graph, nodes=kept, heads=new, source=batched.graph.source.after_rewrite()
    ), images
