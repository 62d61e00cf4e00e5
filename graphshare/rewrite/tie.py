"""Tying: several variables become one node that all their consumers point at; MXNet trains nothing else as one."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from graphshare.analysis.implied import implied_name, implied_variables
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import VARIABLE, Branch, Entry, Graph, Node, Rename, Rewrite
from graphshare.ir.walk import topological


def tie(graph: Graph, ties: Mapping[Node, Node], names: Mapping[Node, str]) -> Rewrite:
    """``graph`` with each key of ``ties`` replaced by its value, and new ``names`` for nodes that stay.

    The values of ``ties`` are variables that are tied to nothing themselves. A kept variable stands where the first of those
    that are one now stood, so that it comes before every consumer that it came before. Entries that are redirected and were
    counted as mutations are counted on: first those of the kept variable, then of each tied one in file order.

    Raises:
        RefusedError: something other than a variable is to be tied; all are listed.
    """
    faults = [
        Fault("is no variable without inputs, and only such can be tied", node=node.name)
        for pair in ties.items()
        for node in pair
        if node.op != VARIABLE or node.inputs or node.control_deps
    ]
    if faults:
        raise RefusedError(dict.fromkeys(faults))
    mutations = _mutations(graph, ties) if ties else {}
    images: dict[Node, Node] = {}
    entries: dict[Entry, Entry] = {}
    for node in (*dict.fromkeys(ties.values()), *topological(graph)):
        if node not in ties and node not in images:
            images[node] = _image(node, names, ties, images, entries, mutations)
    for node, kept in ties.items():
        images[node] = images[kept]
    heads = tuple(_entry(entry, ties, images, entries, mutations) for entry in graph.heads)
    nodes = tuple(dict.fromkeys(images[node] for node in graph.nodes))
    dialect = graph.dialect.rewritten() if ties else msgspec.structs.replace(graph.dialect, escapes="mxnet")
    by_place = {node: images[node] for node in graph.nodes}
    result = Graph(nodes, heads, graph.attrs, dialect, graph.extra)
    renames = [
        Rename("", found.name, implied_name(names[found.node], found.formal))
        for found in implied_variables(graph)
        if found.node in names
    ]
    return Rewrite(result, (Branch("", graph, by_place),), tuple(renames))


def _mutations(graph: Graph, ties: Mapping[Node, Node]) -> dict[Node, int]:
    """By how much the versions of each tied variable go up: how often what it is tied to is mutated before it."""
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


def _image(
    node: Node,
    names: Mapping[Node, str],
    ties: Mapping[Node, Node],
    images: Mapping[Node, Node],
    entries: dict[Entry, Entry],
    mutations: Mapping[Node, int],
) -> Node:
    inputs = tuple([_entry(entry, ties, images, entries, mutations) for entry in node.inputs])
    deps = tuple([images[ties.get(dep, dep)] for dep in node.control_deps])
    name = names.get(node, node.name)
    if name == node.name and inputs == node.inputs and deps == node.control_deps:
        return node
    return msgspec.structs.replace(node, name=name, inputs=inputs, control_deps=deps)


def _entry(
    entry: Entry,
    ties: Mapping[Node, Node],
    images: Mapping[Node, Node],
    entries: dict[Entry, Entry],
    mutations: Mapping[Node, int],
) -> Entry:
    image = entries.get(entry)
    if image is None:
        node = images[ties.get(entry.node, entry.node)]
        version = entry.version + mutations.get(entry.node, 0) if entry.version else entry.version
        image = entry if node is entry.node and version == entry.version else Entry(node, entry.index, version)
        entries[entry] = image
    return image
