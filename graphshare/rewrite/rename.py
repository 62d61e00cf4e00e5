"""New names for nodes, as one act: swaps work, and every collision is found before anything changes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from graphshare.analysis.implied import implied_name, implied_variables
from graphshare.ir.graph import Branch, Graph, Node, Rename, Rewrite
from graphshare.ir.rebuild import rebuild, relink_all
from graphshare.rewrite.naming import check_collisions


def rename(graph: Graph, names: Mapping[Node, str], *, repeats: bool = False) -> Rewrite:
    """``graph`` with the nodes in ``names`` called what it says; all others keep their names.

    Names inside sub-graphs stay: they are bound by position. States that an operator's name implies follow it. With
    ``repeats``, which is for a rename's inverse, names may meet.

    Raises:
        RefusedError: a new name meets one that stays, or two nodes with different names would get one; all are listed.
    """
    implied = [(found, names.get(found.node, found.node.name)) for found in implied_variables(graph)]
    implied_pairs = [(found.name, implied_name(node_name, found.formal)) for found, node_name in implied]
    renamed = [(node.name, names[node]) for node in graph.nodes if node in names and names[node] != node.name]
    renamed += [pair for pair in implied_pairs if pair[0] != pair[1]]
    kept = [node.name for node in graph.nodes if names.get(node, node.name) == node.name]
    kept += [old for old, new in implied_pairs if old == new]
    if not repeats:
        check_collisions(kept, renamed)

    def change(node: Node) -> Node:
        name = names.get(node, node.name)
        return node if name == node.name else replace(node, name=name)

    images = rebuild(graph.nodes, change)
    nodes = tuple([images[node] for node in graph.nodes])
    # Ids stand still under a rename, so lists that did not follow from the nodes stay as they were too.
    result = Graph(nodes, relink_all(graph.heads, images), graph.attrs, graph.source.after_rename(), graph.extra)
    return Rewrite(
        result, (Branch("", graph, images),), tuple(Rename("", old, new) for old, new in implied_pairs if old != new)
    )
