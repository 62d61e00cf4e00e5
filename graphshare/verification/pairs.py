"""Which heads ``verify`` compares: by prefix, by map file, found from the outputs' names, or of two files."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from graphshare.analysis.branches import HeadPairs, find_prefixes, pair_all, pair_by_prefix
from graphshare.errors import Fault, InputError
from graphshare.ir.graph import Entry, Graph, Node


def pair_branches(graph: Graph, prefixes: Sequence[str], map_file: str | None) -> list[HeadPairs]:
    """The branches of a grouped graph: by ``map_file``, else by ``prefixes``, else as the outputs' names tell.

    Raises:
        InputError: the map cannot be read or speaks of another graph.
        RefusedError: heads have no counterpart, or nothing tells the branches apart.
    """
    if map_file:
        return _pair_by_map(graph, map_file)
    return pair_by_prefix(graph, prefixes or find_prefixes(graph))


def pair_files(left: Graph, right: Graph) -> list[HeadPairs]:
    """All heads of two graphs, in order. Raises RefusedError when their numbers differ."""
    return [pair_all(left, right)]


class _Place(msgspec.Struct):
    id: int | None


class _MapEntry(msgspec.Struct, rename={"source": "from", "target": "to"}):
    branch: str
    graph: int
    source: _Place
    target: _Place | None


class _MapFile(msgspec.Struct):
    entries: list[_MapEntry]


def _pair_by_map(graph: Graph, path: str) -> list[HeadPairs]:
    """Heads whose nodes came from one source node belong together; the map's first branch is the reference."""
    images: dict[str, dict[tuple[int, int], Node]] = {}
    for entry in _read_map(path).entries:
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
    return [_paired_heads(graph, reference, images[label], labels[0], label, path) for label in labels[1:]]


def _paired_heads(
    graph: Graph,
    reference: dict[Node, tuple[int, int]],
    images: dict[tuple[int, int], Node],
    name: str,
    label: str,
    path: str,
) -> HeadPairs:
    origins = {node: source for source, node in images.items()}
    back = {source: node for node, source in reference.items()}
    heads = [entry for entry in graph.heads if entry.node in origins and origins[entry.node] in back]
    twins = [Entry(back[origins[entry.node]], entry.index, entry.version) for entry in heads]
    pairs = [(twin, entry) for twin, entry in zip(twins, heads, strict=True) if twin.node is not entry.node]
    if not pairs:
        raise InputError(Fault(f"pairs no head of branch {label!r} with one of {name!r}", where=path))
    return HeadPairs(name, label, tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def _read_map(path: str) -> _MapFile:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=_MapFile)
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", where=path)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(Fault(f"is no map file: {error}", where=path)) from None
