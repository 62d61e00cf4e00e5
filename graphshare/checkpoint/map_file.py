"""The map file: which node of which source became which node of the result, by id, because names repeat."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from graphshare.checkpoint.load import Checkpoint
from graphshare.checkpoint.map_entries import MapFile, map_file_of, refused_unless_map
from graphshare.errors import Fault, InputError
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.source import restyle
from graphshare.ir.graph import Graph, Node, Rewrite

MAP_VERSION = 1


def map_of(rewrite: Rewrite, sources: Mapping[Graph, Checkpoint]) -> dict[str, Any]:
    """The map of a rewrite as plain data; ``schemas/map.schema.json`` describes it.

    ``how`` is ``kept`` (the same node), ``renamed``, ``copied`` (several images), ``tied`` (one node for several branches),
    ``dropped`` (a connected input too) or ``implied`` (a name without a node).
    """
    numbers = {graph: i for i, graph in enumerate(sources)}
    new_ids = {node: i for i, node in enumerate(rewrite.graph.nodes)}
    shared = _images_by_count(rewrite)
    copies = Counter(branch.source for branch in rewrite.branches)
    entries = []
    for branch in rewrite.branches:
        for i, node in enumerate(branch.source.nodes):
            image = branch.images.get(node)
            entries.append(
                {
                    "branch": branch.label,
                    "graph": numbers[branch.source],
                    "from": {"id": i, "name": node.name, "kind": "variable" if node.is_variable else "operator"},
                    "to": None if image is None else {"id": new_ids[image], "name": image.name},
                    "how": _how(node, image, shared, copies[branch.source]),
                }
            )
    for rename in rewrite.renames:
        graph = next(numbers[b.source] for b in rewrite.branches if b.label == rename.branch)
        entries.append(
            {
                "branch": rename.branch,
                "graph": graph,
                "from": {"id": None, "name": rename.old, "kind": "variable"},
                "to": {"id": None, "name": rename.new},
                "how": "implied",
            }
        )
    files = [
        {"file": _readable(source.where), "sha256": hashlib.sha256(source.data).hexdigest()} for source in sources.values()
    ]
    return {"version": MAP_VERSION, "sources": files, "entries": entries}


def _readable(path: str) -> str:
    """A path as text; bytes of it that are none become replacement characters."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _images_by_count(rewrite: Rewrite) -> dict[Node, int]:
    """How many branches each new node serves."""
    counts: dict[Node, int] = {}
    for branch in rewrite.branches:
        for image in branch.images.values():
            counts[image] = counts.get(image, 0) + 1
    return counts


def _how(node: Node, image: Node | None, shared: Mapping[Node, int], branches: int) -> str:
    if image is None:
        return "dropped"
    if shared[image] > 1:
        return "tied"
    if image is node or image.name == node.name:
        return "kept"
    return "copied" if branches > 1 else "renamed"


def map_text(rewrite: Rewrite, sources: Mapping[Graph, Checkpoint]) -> str:
    """The map file's text."""
    return msgspec.json.format(msgspec.json.encode(map_of(rewrite, sources)), indent=2).decode() + "\n"


def read_map(path: str) -> bytes:
    """The bytes of a map file. Raises InputError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", where=path)) from error


def names_from_map(data: bytes, graph: Graph, *, where: str, inverse: bool = False) -> dict[Node, str]:
    """New names for nodes of ``graph`` from a map file, or from a plain object of old names and new ones.

    With ``inverse``, ``graph`` is what the map leads to, and the names are those from before.

    Raises:
        InputError: the file is neither, or speaks of nodes and names that the graph does not have; all are listed.
    """
    with refused_unless_map(where):
        found = map_file_of(data)
    if found is not None:
        return _by_id(found, graph, where, inverse)
    pairs = _pairs(data, where)
    return _by_name(_turned(pairs, where) if inverse else pairs, graph, where)


def _pairs(data: bytes, where: str) -> dict[str, str]:
    """The pairs of a plain map.

    Raises:
        InputError: a name is given twice; the last would win unseen.
    """
    pairs: list[tuple[str, str]] = json.loads(data, object_pairs_hook=list)
    counts = Counter(name for name, _ in pairs)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise InputError([Fault(f"names {name!r} more than once", where=where, hint="keep one of them") for name in twice])
    return dict(pairs)


def source_hash(data: bytes) -> str:
    """The SHA-256 of the one graph that a map file is of; empty where it is none, or of several."""
    try:
        sources = msgspec.json.decode(data, type=MapFile).sources
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return sources[0].sha256 if len(sources) == 1 else ""


def restored(rewrite: Rewrite, sha256: str) -> Rewrite | None:
    """``rewrite`` written in the way in which its graph has this hash; None where no way gives it.

    A rename writes strings as MXNet does, so how its source escaped them can only be found by trying.
    """
    graph = rewrite.graph
    for escapes in ("mxnet", "json", "ascii"):
        tried = restyle(graph, escapes=escapes)
        digest = hashlib.sha256()
        for piece in write_symbol(tried):
            digest.update(piece)
        if digest.hexdigest() == sha256:
            return msgspec.structs.replace(rewrite, graph=tried)
    return None


def _turned(pairs: dict[str, str], where: str) -> dict[str, str]:
    counts = Counter(pairs.values())
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        hint = "a map file that `rename --map-out` writes goes by nodes and has an inverse"
        raise InputError([Fault(f"gives the name {name!r} more than once", where=where, hint=hint) for name in twice])
    return {new: old for old, new in pairs.items()}


def _by_id(found: MapFile, graph: Graph, where: str, inverse: bool) -> dict[Node, str]:
    branches = dict.fromkeys(entry.branch for entry in found.entries)
    if len(branches) > 1:
        listed = ", ".join(repr(branch) for branch in branches)
        hint = "a rename takes the map of one branch, as `duplicate --drop-original` with one prefix and `rename` write it"
        raise InputError(Fault(f"is the map of {len(branches)} branches ({listed})", where=where, hint=hint))
    names: dict[Node, str] = {}
    seen: set[Node] = set()
    faults = []
    for i, entry in enumerate(found.entries):
        if entry.target is None and inverse:
            faults.append(Fault("is a node that was dropped, which no rename brings back", where=where, path=f"$.entries[{i}]"))
        if entry.target is None or entry.source.id is None or entry.target.id is None:
            continue
        old, new = (entry.target, entry.source) if inverse else (entry.source, entry.target)
        node = graph.nodes[old.id] if old.id is not None and 0 <= old.id < len(graph.nodes) else None
        side = "to" if inverse else "from"
        if node is None or node.name != old.name:
            message = f"speaks of node {old.id} named {old.name!r}, which the graph does not have"
            faults.append(Fault(message, where=where, path=f"$.entries[{i}].{side}"))
        elif node in seen if inverse else names.get(node, new.name) != new.name:
            faults.append(Fault(f"gives node {old.id} two names", where=where, path=f"$.entries[{i}].{side}"))
        else:
            names[node] = new.name
            seen.add(node)
    if faults:
        raise InputError(faults)
    return names


def _by_name(found: dict[str, str], graph: Graph, where: str) -> dict[Node, str]:
    from graphshare.text.names import did_you_mean

    by_name: dict[str, list[Node]] = {}
    for node in graph.nodes:
        by_name.setdefault(node.name, []).append(node)
    unknown = [name for name in found if name not in by_name]
    if unknown:
        raise InputError(
            [Fault(f"the graph has no node named {name!r}", where=where, hint=did_you_mean(name, by_name)) for name in unknown]
        )
    return {node: new for old, new in found.items() for node in by_name[old]}
