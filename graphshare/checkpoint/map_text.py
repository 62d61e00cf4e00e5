"""The text of a map file (:mod:`graphshare.checkpoint.map_file`): which node of which source became which node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec

from graphshare.checkpoint.map_file import MAP_VERSION, digest
from graphshare.checkpoint.model import Checkpoint
from graphshare.formats.model_format import find_format
from graphshare.formats.mxnet.json_writer import SPECIAL
from graphshare.ir.graph import Branch, Graph, Kept, Node, Rewrite
from graphshare.text.format import encode_json


def describe_rewrite(model: Checkpoint) -> dict[str, Any]:
    """Return the map of a model's rewrites as plain data; ``schemas/map.schema.json`` describes it.

    ``how`` is ``kept`` (the same node), ``renamed``, ``copied`` (several images), ``tied`` (one node for several branches),
    ``dropped`` (a connected input too) or ``implied`` (a name without a node).
    """
    rewrite, sources = _rewrite_of(model)
    numbers = {source.graph: i for i, source in enumerate(sources)}
    new_ids = {node: i for i, node in enumerate(find_format(rewrite.graph).list_as_read(rewrite.graph))}
    entries = [
        {
            "branch": branch.label,
            "graph": numbers[branch.source],
            "from": {"id": i, "name": node.name, "kind": "operator" if node.op else "variable", **_describe_names(node)},
            "to": None if image is None else {"id": new_ids[image], "name": image.name, **_describe_names(image)},
            "how": how,
        }
        for branch, nodes in _list_images(rewrite)
        for i, node, image, how in nodes
    ]
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


def _list_images(rewrite: Rewrite) -> Iterator[tuple[Branch, Iterator[tuple[int, Node, Node | None, str]]]]:
    """Yield each branch with its nodes: the id, the node, its image, and how it became that."""
    images = [branch.source.nodes if isinstance(branch.images, Kept) else branch.images.values() for branch in rewrite.branches]
    served = Counter(chain.from_iterable(images))  # how many branches each new node serves
    shared = {node for node, count in served.items() if count > 1}
    copies = Counter(branch.source for branch in rewrite.branches)
    for branch in rewrite.branches:
        yield branch, _list_nodes(branch, shared, "copied" if copies[branch.source] > 1 else "renamed")


def _list_nodes(branch: Branch, shared: Set[Node], changed: str) -> Iterator[tuple[int, Node, Node | None, str]]:
    nodes = branch.source.nodes
    images = nodes if isinstance(branch.images, Kept) else map(branch.images.get, nodes)
    for i, node, image in zip(range(len(nodes)), nodes, images, strict=True):
        if image is None:
            how = "dropped"
        elif image in shared:
            how = "tied"
        else:
            how = "kept" if image is node or image.name == node.name else changed
        yield i, node, image, how


def _describe_names(node: Node) -> dict[str, Any]:
    """Return the stored names of a node that its name does not say."""
    details = node.details
    if not details.label and details.outputs in ((), (node.name,)):
        return {}
    return {"outputs": list(details.outputs), "label": details.label}


def _hash(source: Checkpoint) -> str:
    """Return the sha256 of a model's file in hexadecimal digits."""
    format_ = find_format(source.graph)
    return digest(format_.encode(source.graph) if format_.holds_parameters else [source.data])


def _rewrite_of(model: Checkpoint) -> tuple[Rewrite, tuple[Checkpoint, ...]]:
    """Return the rewrite with its sources; a model that was not rewritten maps every node to itself."""
    if model.rewrite is not None:
        return model.rewrite, model.sources
    return Rewrite(model.graph, (Branch("", model.graph, Kept(model.graph)),)), (model,)


def _readable(path: str) -> str:
    """Return a path as text; bytes that are not UTF-8 become replacement characters."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def map_text(model: Checkpoint) -> str:
    """Return the text of a model's map file."""
    rewrite, sources = _rewrite_of(model)
    nodes = [node for graph in (rewrite.graph, *(source.graph for source in sources)) for node in graph.nodes]
    has_more = rewrite.renames or any(map(_STORED_NAMES, nodes))
    if not nodes or has_more or SPECIAL.search("".join([node.name for node in nodes])) is not None:
        return msgspec.json.format(encode_json(describe_rewrite(model)), indent=2).decode() + "\n"
    head = {"version": MAP_VERSION, "sources": _describe_sources(sources), "entries": []}
    begin, _, end = msgspec.json.format(encode_json(head), indent=2).decode().rpartition("[]")
    entries = ",\n".join(_usual_entries(rewrite, {source.graph: i for i, source in enumerate(sources)}))
    return f"{begin}[\n{entries}\n  ]{end}\n"


_STORED_NAMES = attrgetter("details.outputs")


def _usual_entries(rewrite: Rewrite, numbers: Mapping[Graph, int]) -> Iterator[str]:
    """Yield the text of each entry of a map whose names need no escape, in a third of the time that encoding takes."""
    new_ids = dict(zip(rewrite.graph.nodes, range(len(rewrite.graph.nodes)), strict=True))
    for branch, rows in _list_images(rewrite):
        label = encode_json(branch.label).decode()
        head = f'    {{\n      "branch": {label},\n      "graph": {numbers[branch.source]},\n      "from": {{\n        "id": '
        for i, node, image, how in rows:
            kind = "operator" if node.op else "variable"
            to = "null" if image is None else f'{{\n        "id": {new_ids[image]},\n        "name": "{image.name}"\n      }}'
            yield (
                f'{head}{i},\n        "name": "{node.name}",\n        "kind": "{kind}"\n      }},\n'
                f'      "to": {to},\n      "how": "{how}"\n    }}'
            )
