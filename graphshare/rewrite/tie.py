"""Tying: several variables become one node of all their consumers, which is all that MXNet trains as one."""

from __future__ import annotations

from collections.abc import Mapping

from graphshare.analysis.name_lists import implied_name, implied_variables
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rename, Rewrite
from graphshare.ir.rebuild import rebuild, relink, rename_node
from graphshare.ir.walk import topological


def tie(graph: Graph, ties: Mapping[Node, Node], names: Mapping[Node, str]) -> Rewrite:
    """Replace each key of ``ties`` by its value, and give new ``names`` to nodes that stay.

    The values of ``ties`` are variables that are tied to nothing themselves. A kept variable takes the place of the first
    that is tied to it, so that it stays before every consumer. The versions of redirected entries are counted
    on: first those of the kept variable, then of each tied one in file order.

    Raises:
        RefusedError: something other than a variable is to be tied; all are listed.
    """
    faults = [
        Fault("cannot be tied: only variables without inputs can", node=node.name)
        for pair in ties.items()
        for node in pair
        if not node.is_variable or node.inputs or node.control_deps
    ]
    if faults:
        raise RefusedError(dict.fromkeys(faults))
    mutations = _count_mutations(graph, ties) if ties else {}
    images: dict[Node, Node] = {}

    def change(node: Node) -> Node:
        if node in ties:
            return images[ties[node]]
        name = names.get(node, node.name)
        return node if name == node.name else rename_node(node, name)

    def redirect(entry: Entry, _: Node | None = None) -> Entry | None:
        count = mutations.get(entry.node)
        return Entry(images[entry.node], entry.index, entry.version + count) if count and entry.version else None

    order = tuple(dict.fromkeys((*ties.values(), *topological(graph))))
    rebuild(order, change, redirect=redirect if mutations else None, images=images)
    heads = tuple(redirect(entry) or relink(entry, images) for entry in graph.heads)
    nodes = tuple(dict.fromkeys(images[node] for node in graph.nodes))
    source = graph.source.after_rewrite(images) if ties else graph.source.after_rename(images)
    by_place = {node: images[node] for node in graph.nodes}
    result = Graph(nodes, heads, graph.attrs, source, graph.extra)
    renames = [
        Rename("", found.name, implied_name(names[found.node], found.formal))
        for found in implied_variables(graph)
        if found.node in names
    ]
    return Rewrite(result, (Branch("", graph, by_place),), tuple(renames))


def _count_mutations(graph: Graph, ties: Mapping[Node, Node]) -> dict[Node, int]:
    """Return by how much the versions of each tied variable rise: how often the kept one is mutated before it."""
    last: dict[Node, int] = {}
    for node in graph.nodes:
        for entry in node.inputs:
            if entry.version:
                last[entry.node] = max(last.get(entry.node, 0), entry.version)
    counted = {kept: last.get(kept, 0) for kept in ties.values()}
    raised: dict[Node, int] = {}
    for node in graph.nodes:
        if node in ties:
            raised[node] = counted[ties[node]]
            counted[ties[node]] += last.get(node, 0)
    return raised
