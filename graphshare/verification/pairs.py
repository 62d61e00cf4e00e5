"""Which heads ``verify`` compares: by prefix, by map file, found from the outputs' names, or of two files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from graphshare.analysis.branches import HeadPairs, find_prefixes, pair_all, pair_by_prefix
from graphshare.checkpoint.map_file import read_map
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.ir.graph import Entry, Graph, Node, Rewrite


def pair_branches(graph: Graph, prefixes: Sequence[str], map_file: str | None) -> list[HeadPairs]:
    """Return the branches of a grouped graph: by ``map_file``, by ``prefixes``, or by the names of the outputs.

    Raises:
        InputError: the map cannot be read or is of another graph.
        RefusedError: heads have no counterpart, or the branches cannot be told apart.
    """
    if map_file:
        return _pair_by_map(graph, map_file)
    return pair_by_prefix(graph, prefixes or find_prefixes(graph))


def pair_by_rewrite(rewrite: Rewrite) -> list[HeadPairs]:
    """Pair the heads of a rewrite's branches: those that came from one source node; the first branch is the reference.

    Raises:
        RefusedError: there is one branch only.
        InputError: a branch has no head that came from a node of the first.
    """
    first, *others = rewrite.branches
    if not others:
        raise RefusedError(Fault("there is only one branch", hint="`graphshare duplicate` adds one"))
    reference = {image: node for node, image in first.images.items()}
    return [
        _pair_images(rewrite.graph, reference, branch.images, first.label, branch.label, "the rewrite") for branch in others
    ]


def pair_files(left: Graph, right: Graph) -> list[HeadPairs]:
    """Pair all heads of two graphs, in order. Raises RefusedError when their numbers differ."""
    return [pair_all(left, right)]


def _pair_by_map(graph: Graph, path: str) -> list[HeadPairs]:
    """Heads whose nodes came from one source node belong together; the first branch of the map is the reference."""
    images: dict[str, dict[tuple[int, int], Node]] = {}
    for entry in read_map(path).entries:
        if entry.target is None or entry.target.id is None or entry.source.id is None:
            continue
        if not 0 <= entry.target.id < len(graph.nodes):
            raise InputError(Fault(f"speaks of node {entry.target.id}, which the graph does not have", where=path))
        images.setdefault(entry.branch, {})[entry.graph, entry.source.id] = graph.nodes[entry.target.id]
    labels = list(images)
    if len(labels) < 2:
        raise InputError(
            Fault("has one branch only", where=path, hint="give the map that `graphshare duplicate --map-out` wrote")
        )
    reference = {node: source for source, node in images[labels[0]].items()}
    return [_pair_images(graph, reference, images[label], labels[0], label, path) for label in labels[1:]]


Origin = TypeVar("Origin")


def _pair_images(
    graph: Graph,
    reference: Mapping[Node, Origin],
    images: Mapping[Origin, Node],
    name: str,
    label: str,
    path: str,
) -> HeadPairs:
    origins = {node: source for source, node in images.items()}
    back = {source: node for node, source in reference.items()}
    heads = [entry for entry in graph.heads if entry.node in origins and origins[entry.node] in back]
    twins = [Entry(back[origins[entry.node]], entry.index, entry.version) for entry in heads]
    pairs = {(entry.node, entry.index): (twin, entry) for twin, entry in zip(twins, heads, strict=True)}.values()
    if all(twin.node is entry.node for twin, entry in pairs):
        raise InputError(Fault(f"pairs no head of branch {label!r} with one of {name!r}", where=path))
    return HeadPairs(name, label, tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
