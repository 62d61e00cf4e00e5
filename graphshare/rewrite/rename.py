"""New names for nodes, as one act: swaps work, and every collision is found before anything changes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from graphshare.analysis.implied import implied_name, implied_variables
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rename, Rewrite
from graphshare.ir.walk import topological
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

    images: dict[Node, Node] = {}
    entries: dict[Entry, Entry] = {}
    for node in topological(graph):
        inputs = tuple([_image(entry, images, entries) for entry in node.inputs])
        deps = tuple([images[dep] for dep in node.control_deps])
        images[node] = msgspec.structs.replace(node, name=names.get(node, node.name), inputs=inputs, control_deps=deps)
    nodes = tuple(images[node] for node in graph.nodes)
    heads = tuple(_image(entry, images, entries) for entry in graph.heads)
    # Ids stand still under a rename, so lists that did not follow from the nodes stay as they were too.
    dialect = msgspec.structs.replace(graph.dialect, escapes="mxnet")
    result = Graph(nodes, heads, graph.attrs, dialect, graph.extra)
    return Rewrite(
        result, (Branch("", graph, images),), tuple(Rename("", old, new) for old, new in implied_pairs if old != new)
    )


def _image(entry: Entry, images: Mapping[Node, Node], entries: dict[Entry, Entry]) -> Entry:
    image = entries.get(entry)
    if image is None:
        image = entries[entry] = Entry(images[entry.node], entry.index, entry.version)
    return image
