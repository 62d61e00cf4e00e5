"""The map file pairs nodes of the sources and the result, by id, because names repeat."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec

from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import hash_pieces
from graphshare.files.open_source import read_file
from graphshare.formats.model_format import find_format
from graphshare.formats.mxnet.source import SPECIAL
from graphshare.ir.graph import Branch, Graph, Kept, Node, Rewrite
from graphshare.ir.rebuild import StoredNames, rename_node
from graphshare.text.format import encode_json, format_count
from graphshare.text.names import did_you_mean, find_duplicates, find_numbered
from graphshare.text.summary import ShortRepr, quote_name

MAP_VERSION = 1
StoredByNode = dict[Node, StoredNames]


class Place(msgspec.Struct):
    """A node by its id (None in a plain map of names) and its name.

    An operator of an ONNX file also has ``outputs`` and a ``label`` if they differ from its name.
    """

    id: int | None
    name: str
    outputs: list[str] | None = None
    label: str = ""


class MapEntry(msgspec.Struct, rename={"source": "from", "target": "to"}):
    """The old place of a node, the new one (None: dropped), its branch, and its graph's number."""

    source: Place
    target: Place | None
    branch: str = ""
    graph: int = 0

    def order_places(self, inverse: bool) -> tuple[Place | None, Place | None]:
        """Return the places before and after the rewrite; ``inverse`` exchanges them."""
        return (self.target, self.source) if inverse else (self.source, self.target)


class MapSource(msgspec.Struct):
    """A source file of the map."""

    sha256: str


class MapFile(ShortRepr, msgspec.Struct):
    """The content of the map file ``where``; ``by_name`` marks a plain object of old and new names."""

    entries: list[MapEntry]
    sources: list[MapSource] = []
    by_name: bool = False
    where: str = ""

    def _summary(self) -> str:
        return f"{quote_name(self.where)}, {format_count(len(self.entries), 'node')}"

    def list_names(self, *, inverse: bool = False) -> dict[str, str]:
        """Map old names to new ones, or the reverse, for a map without ids.

        Raises InputError if ``inverse`` meets two names with one new name.
        """
        pairs = {
            entry.source.name: entry.target.name
            for entry in self.entries
            if entry.target is not None
        }
        return _inverse(pairs, self.where) if inverse else pairs


class NodeFinder:
    """Nodes of a graph by their places in a map.

    An id counts if its node has the map's name, else a unique name: ids differ in maps of versions
    that did not list the weights in bodies.
    """

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._by_name: dict[str, list[Node]] = {}

    def find(self, place: Place) -> Node | None:
        """Return the node at a place; None if there is none, or several."""
        if place.id is not None and 0 <= place.id < len(self._nodes):
            node = self._nodes[place.id]
            if node.name == place.name:
                return node
        if not self._by_name:
            for node in self._nodes:
                self._by_name.setdefault(node.name, []).append(node)
        named = self._by_name.get(place.name, ())
        return named[0] if len(named) == 1 else None


def read_map(path: str | os.PathLike[str]) -> MapFile:
    """Read a map file, or a plain JSON object of old names and new ones.

    Raises:
        InputError: the file cannot be read or is neither; a plain object gives a name twice.
    """
    where = os.fspath(path)
    try:
        data = read_file(where)
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", where=where)) from error
    return parse_map(data, where)


def parse_map(data: bytes, where: str) -> MapFile:
    """Parse the bytes of a map file; see :func:`read_map`."""
    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if fields.keys() >= {"version", "entries"}:
            _refuse_newer(bytes(fields["version"]), where)
            return msgspec.structs.replace(
                msgspec.json.decode(data, type=MapFile), by_name=False, where=where
            )
        msgspec.json.decode(data, type=dict[str, str])
    except (ValueError, RecursionError) as error:
        hint = 'a map is a graphshare map file, or an object {"old name": "new name"}'
        raise InputError(Fault(f"is not a map: {error}", where=where, hint=hint)) from None
    # A dict keeps the last repeated name silently; the pairs show it.
    pairs: list[tuple[str, str]] = json.loads(data, object_pairs_hook=list)
    InputError.raise_any(
        Fault(f"names {name!r} more than once", where=where, hint="keep one of them")
        for name in find_duplicates(old for old, _ in pairs)
    )
    entries = [MapEntry(Place(None, old), Place(None, new)) for old, new in pairs]
    return MapFile(entries, by_name=True, where=where)


def _refuse_newer(version: bytes, where: str) -> None:
    # Nine digits decide: Python refuses to convert thousands of them.
    if version.isdigit() and int(version[:9]) > MAP_VERSION:
        message = f"is a map of version {version[:9].decode()}, and this graphshare reads version {MAP_VERSION}"
        raise InputError(
            Fault(
                message,
                where=where,
                hint="read it with the graphshare that wrote it, or a newer one",
            )
        )


def names_from_map(map_file: MapFile, graph: Graph, *, inverse: bool = False) -> dict[Node, str]:
    """Return the new names that a map gives to nodes of ``graph``.

    With ``inverse``, ``graph`` is the map's result, and the names are the old ones.

    Raises:
        InputError: the map names nodes that the graph lacks.
    """
    if not map_file.by_name:
        return _by_id(map_file, graph, inverse)
    return _by_name(map_file.list_names(inverse=inverse), graph, map_file.where)


def read_stored_names(
    map_file: MapFile, names: Mapping[Node, str], graph: Graph, *, inverse: bool = False
) -> StoredByNode:
    """Return the output names and labels that a map gives to nodes beside ``names``.

    A plain map may name any value. Empty if the format stores no such names.
    """
    if not map_file.by_name:
        return _read_stored_by_id(map_file, graph, inverse)
    stored: dict[Node, StoredNames] = {}
    pairs = map_file.list_names(inverse=inverse)
    for node, name in names.items():
        if node.op and node.details.outputs:
            image = rename_node(node, name).details
            outputs = [
                pairs.get(old, new)
                for old, new in zip(node.details.outputs, image.outputs, strict=True)
            ]
            stored[node] = StoredNames(tuple(outputs), image.label)
    return stored


def _read_stored_by_id(map_file: MapFile, graph: Graph, inverse: bool) -> StoredByNode:
    stored: dict[Node, StoredNames] = {}
    finder = NodeFinder(graph)
    for entry in map_file.entries:
        old, new = entry.order_places(inverse)
        if old is None or old.id is None or new is None or new.outputs is None:
            continue
        node = finder.find(old)
        if node is not None and len(node.details.outputs) == len(new.outputs):
            stored[node] = StoredNames(tuple(new.outputs), new.label)
    return stored


def restore_escapes(rewrite: Rewrite, map_file: MapFile) -> Rewrite | None:
    """Return ``rewrite`` with the string escapes that give the hash of the map's source, if any.

    A rename writes strings as MXNet does: the source's escapes can only be found by trying.
    """
    if len(map_file.sources) != 1:
        return None
    format_ = find_format(rewrite.graph)
    for graph in format_.list_spellings(rewrite.graph):
        if hash_pieces(format_.encode(graph)) == map_file.sources[0].sha256:
            return msgspec.structs.replace(rewrite, graph=graph)
    return None


def _inverse(pairs: dict[str, str], where: str) -> dict[str, str]:
    hint = "a map file written by `rename --map-out` identifies nodes by id and has an inverse"
    InputError.raise_any(
        Fault(f"gives the name {name!r} more than once", where=where, hint=hint)
        for name in find_duplicates(pairs.values())
    )
    return {new: old for old, new in pairs.items()}


def _refuse_branches(map_file: MapFile) -> None:
    branches = dict.fromkeys(entry.branch for entry in map_file.entries)
    if len(branches) > 1:
        message = f"is the map of {format_count(len(branches), 'branch')} ({', '.join(map(repr, branches))})"
        hint = (
            "a rename takes the map of one branch, as `duplicate --drop-original` with one prefix "
            "and `rename` write it"
        )
        raise InputError(Fault(message, where=map_file.where, hint=hint))


def _by_id(map_file: MapFile, graph: Graph, inverse: bool) -> dict[Node, str]:
    _refuse_branches(map_file)
    where, side = map_file.where, "to" if inverse else "from"
    finder = NodeFinder(graph)
    names: dict[Node, str] = {}
    faults = []
    for i, entry in enumerate(map_file.entries):
        if entry.target is None and inverse:
            message = "is a node that was dropped, and a rename cannot bring it back"
            faults.append(Fault(message, where=where, path=f"$.entries[{i}]"))
        old, new = entry.order_places(inverse)
        if old is None or old.id is None or new is None or new.id is None:
            continue
        node = finder.find(old)
        if node is None:
            message = f"names node {old.id} {old.name!r}, which the graph does not have"
            faults.append(Fault(message, where=where, path=f"$.entries[{i}].{side}"))
        # Backwards, a node to which two were tied would become two, even if both had one name.
        elif node in names and (inverse or names[node] != new.name):
            faults.append(
                Fault(f"gives node {old.id} two names", where=where, path=f"$.entries[{i}].{side}")
            )
        else:
            names[node] = new.name
    InputError.raise_any(faults)
    return names


def _by_name(names: Mapping[str, str], graph: Graph, where: str) -> dict[Node, str]:
    by_name: dict[str, list[Node]] = {}
    for node in dict.fromkeys((*(head.node for head in graph.heads), *graph.nodes)):
        for name in dict.fromkeys((node.name, *filter(None, node.details.outputs))):
            by_name.setdefault(name, []).append(node)
    new: dict[Node, str] = {}
    numbered: dict[Node, str] = {}
    faults = []
    for name in names:
        # NAME#1 is the second of several nodes of one name, as in every option.
        one = find_numbered(name, by_name)
        if one is not None:
            numbered[one] = names[name]
        elif name in by_name:
            new.update((node, names.get(node.name, node.name)) for node in by_name[name])
        else:
            message = f"the graph has no node named {name!r}"
            faults.append(Fault(message, where=where, hint=did_you_mean(name, by_name)))
    InputError.raise_any(faults)
    return {**new, **numbered}


def describe_rewrite(model: Checkpoint) -> dict[str, Any]:
    """Return the map of a model's rewrites as plain data, as in ``schemas/map.schema.json``.

    ``how`` is ``kept`` (the same node), ``renamed``, ``copied`` (several images), ``tied`` (one
    node for several branches), ``dropped`` (a connected input, too) or ``implied`` (a name without
    a node).
    """
    rewrite, sources = _find_rewrite(model), model.loaded_models
    numbers = {source.graph: i for i, source in enumerate(sources)}
    new_ids = {
        node: i for i, node in enumerate(find_format(rewrite.graph).list_as_read(rewrite.graph))
    }
    entries = []
    for branch, nodes in _list_images(rewrite):
        for i, node, image, how in nodes:
            kind = "operator" if node.op else "variable"
            target = None
            if image is not None:
                target = {"id": new_ids[image], "name": image.name, **_describe_names(image)}
            entries.append(
                {
                    "branch": branch.label,
                    "graph": numbers[branch.source],
                    "from": {"id": i, "name": node.name, "kind": kind, **_describe_names(node)},
                    "to": target,
                    "how": how,
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
    return {"version": MAP_VERSION, "sources": _describe_sources(sources), "entries": entries}


def _describe_sources(sources: Sequence[Checkpoint]) -> list[dict[str, str]]:
    return [{"file": _readable(source.where), "sha256": _hash(source)} for source in sources]


def _list_images(
    rewrite: Rewrite,
) -> Iterator[tuple[Branch, Iterator[tuple[int, Node, Node | None, str]]]]:
    """Yield each branch with its nodes: the id, the node, its image, and how it became that."""
    images = [
        branch.source.nodes if isinstance(branch.images, Kept) else branch.images.values()
        for branch in rewrite.branches
    ]
    served = Counter(chain.from_iterable(images))  # how many branches each new node serves
    shared = {node for node, count in served.items() if count > 1}
    copies = Counter(branch.source for branch in rewrite.branches)
    for branch in rewrite.branches:
        changed = "copied" if copies[branch.source] > 1 else "renamed"
        yield branch, _list_nodes(branch, shared, changed)


def _list_nodes(
    branch: Branch, shared: Set[Node], changed: str
) -> Iterator[tuple[int, Node, Node | None, str]]:
    nodes = branch.source.nodes
    images = nodes if isinstance(branch.images, Kept) else map(branch.images.get, nodes)
    for i, node, image in zip(range(len(nodes)), nodes, images, strict=True):
        if image is None:
            how = "dropped"
        elif image in shared:
            how = "tied"
        elif image is node or image.name == node.name:
            how = "kept"
        else:
            how = changed
        yield i, node, image, how


def _describe_names(node: Node) -> dict[str, Any]:
    details = node.details
    if not details.label and details.outputs in ((), (node.name,)):
        return {}
    return {"outputs": list(details.outputs), "label": details.label}


def _hash(source: Checkpoint) -> str:
    format_ = find_format(source.graph)
    return hash_pieces(format_.encode(source.graph) if format_.holds_parameters else [source.data])


def _find_rewrite(model: Checkpoint) -> Rewrite:
    """Return a model's rewrite; of one as it was loaded, the rewrite that keeps all nodes."""
    if model.rewrite is not None:
        return model.rewrite
    return Rewrite(model.graph, (Branch("", model.graph, Kept(model.graph)),))


def _readable(path: str) -> str:
    """Bytes that are not UTF-8 become replacement characters."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def map_text(model: Checkpoint) -> str:
    """Return the text of a model's map file."""
    rewrite, sources = _find_rewrite(model), model.loaded_models
    nodes = list(rewrite.graph.nodes)
    for source in sources:
        nodes += source.graph.nodes
    names = "".join([node.name for node in nodes])
    has_more = rewrite.renames or any(map(_STORED_NAMES, nodes))
    if not nodes or has_more or SPECIAL.search(names) is not None:
        return msgspec.json.format(encode_json(describe_rewrite(model)), indent=2).decode() + "\n"
    head = {"version": MAP_VERSION, "sources": _describe_sources(sources), "entries": []}
    # The entries go between the last brackets, of the empty list.
    begin, _, end = msgspec.json.format(encode_json(head), indent=2).decode().rpartition("[]")
    numbers = {source.graph: i for i, source in enumerate(sources)}
    entries = ",\n".join(_usual_entries(rewrite, numbers))
    return f"{begin}[\n{entries}\n  ]{end}\n"


_STORED_NAMES = attrgetter("details.outputs")


def _usual_entries(rewrite: Rewrite, numbers: Mapping[Graph, int]) -> Iterator[str]:
    """Yield entries whose names need no escape, in a third of the time of encoding."""
    new_ids = dict(zip(rewrite.graph.nodes, range(len(rewrite.graph.nodes)), strict=True))
    for branch, rows in _list_images(rewrite):
        label = encode_json(branch.label).decode()
        head = (
            f'    {{\n      "branch": {label},\n      "graph": {numbers[branch.source]},\n'
            '      "from": {\n        "id": '
        )
        for i, node, image, how in rows:
            kind = "operator" if node.op else "variable"
            to = "null"
            if image is not None:
                to = (
                    f'{{\n        "id": {new_ids[image]},\n        "name": "{image.name}"\n      }}'
                )
            yield (
                f'{head}{i},\n        "name": "{node.name}",\n        "kind": "{kind}"\n      }},\n'
                f'      "to": {to},\n      "how": "{how}"\n    }}'
            )
