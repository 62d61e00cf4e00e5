"""Seeded damage to graph files and parameter files, of the kinds that editors, scripts and broken disks do."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from random import Random
from typing import Any

Document = dict[str, Any]
_CHARACTERS = string.ascii_letters + string.digits + "_-., ()"


def garble(rng: Random, text: str) -> str:
    """``text`` with one character replaced, removed or put in; never the same text."""
    while True:
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(3)
        character = rng.choice(_CHARACTERS)
        if kind == 0:
            new = text[:at] + character + text[at:]
        elif kind == 1:
            new = text[:at] + text[at + 1 :]
        else:
            new = text[:at] + character + text[at + 1 :]
        if new != text:
            return new


def find_attrs(node: Document) -> Document:
    """The attribute map of a node under whichever key it has; an empty one that belongs to nobody without."""
    found: Document = next((node[key] for key in ("attrs", "attr", "param") if node.get(key)), {})
    return found


def _list_operators(graph: Document) -> list[Document]:
    # Never empty in the graphs chosen
    return [node for node in graph["nodes"] if node["op"] != "null" and node["inputs"]]


def ids(rng: Random, graph: Document) -> str:
    """One number of an entry, of ``arg_nodes`` or of the heads."""
    kind = rng.choice(
        [
            "input",
            "input",
            "input",
            "index",
            "head",
            "arg_nodes",
            "row",
            "dropped",
            "swapped",
            "twice",
        ]
    )
    node = rng.choice(_list_operators(graph))
    entry = rng.choice(node["inputs"])
    if kind == "index":
        entry[1] += rng.randint(1, 3)
    elif kind == "head":
        head = rng.choice(graph["heads"])
        head[0] = _pick_other(rng, head[0], len(graph["nodes"]) + 3)
    elif kind == "arg_nodes":
        graph["arg_nodes"][rng.randrange(len(graph["arg_nodes"]))] = rng.randrange(
            len(graph["nodes"]) + 3
        )
    elif kind == "row" and graph.get("node_row_ptr"):
        graph["node_row_ptr"][rng.randrange(len(graph["node_row_ptr"]))] += rng.randint(1, 5)
    elif kind == "dropped":
        node["inputs"].remove(entry)
    elif kind == "twice":
        node["inputs"].append(list(entry))
    elif kind == "swapped":
        other = rng.choice(node["inputs"])
        entry[0], other[0] = other[0], entry[0]
    else:
        entry[0] = _pick_other(rng, entry[0], len(graph["nodes"]) + 3)
    return kind


def _pick_other(rng: Random, old: int, count: int) -> int:
    new = rng.randrange(count - 1)
    return new + (new >= old)


def names(rng: Random, graph: Document) -> str:
    """The name of a node, or the operator that it applies."""
    kind = rng.choice(["garble", "garble", "another", "empty", "swapped", "operator"])
    node, other = rng.choice(graph["nodes"]), rng.choice(graph["nodes"])
    if kind == "operator":
        node = rng.choice(_list_operators(graph))
        node["op"] = garble(rng, node["op"])
    elif kind == "garble":
        node["name"] = garble(rng, node["name"])
    elif kind == "another":
        node["name"] = other["name"]
    elif kind == "empty":
        node["name"] = ""
    else:
        node["name"], other["name"] = other["name"], node["name"]
    return kind


def keys(rng: Random, graph: Document) -> str:
    """A key of the graph, of a node or of its attributes: garbled, gone, or put beside one that was there."""
    kind = rng.choice(["graph", "node", "node", "attribute", "attribute", "extra"])
    node = rng.choice(graph["nodes"])
    holder = graph if kind == "graph" else node
    if kind == "attribute":
        holder = find_attrs(
            rng.choice([n for n in _list_operators(graph) if find_attrs(n)] or [node])
        )
    if kind == "extra":
        node["comment"] = "by hand"
    elif holder:
        key = rng.choice(list(holder))
        value = holder.pop(key)
        if rng.random() < 0.6:
            holder[garble(rng, key)] = value
        else:
            kind += " gone"
    return kind


def attributes(rng: Random, graph: Document) -> str:
    """The value of an attribute of an operator: garbled, of another type, or another attribute's."""
    attrs = find_attrs(
        rng.choice([n for n in _list_operators(graph) if find_attrs(n)] or graph["nodes"])
    )
    if not attrs:
        return "none"
    kind = rng.choice(["garble", "garble", "number", "another", "empty", "words"])
    key = rng.choice(list(attrs))
    if kind == "number":
        attrs[key] = 3
    elif kind == "another":
        attrs[key] = rng.choice(list(attrs.values()))
    elif kind == "empty":
        attrs[key] = ""
    elif kind == "words":
        attrs[key] = rng.choice(["yes", "none", "same as above", "1.0.0", "(3, 3"])
    else:
        attrs[key] = garble(rng, attrs[key])
    return kind


def bytes_of(rng: Random, data: bytes) -> tuple[str, bytes]:
    """A few bytes of a file: flipped, gone, put in, doubled, or all from somewhere on."""
    kind = rng.choice(["flipped", "gone", "put in", "doubled", "cut"])
    at, length = rng.randrange(len(data)), rng.choice([1, 1, 1, 8, 64])
    if kind == "flipped":
        return kind, data[:at] + bytes((data[at] ^ (1 << rng.randrange(8)),)) + data[at + 1 :]
    if kind == "gone":
        return kind, data[:at] + data[at + length :]
    if kind == "put in":
        return kind, data[:at] + rng.randbytes(length) + data[at:]
    if kind == "doubled":
        return kind, data[: at + length] + data[at:]
    return kind, data[:at]


GRAPH_KINDS: dict[str, Callable[[Random, Document], str]] = {
    "ids": ids,
    "names": names,
    "keys": keys,
    "attributes": attributes,
}


def mutated(rng: Random, kind: str, graph: bytes, params: bytes) -> tuple[str, bytes, bytes]:
    """What was done, and both files after it. ``kind`` is one of ``GRAPH_KINDS``, ``bytes`` or ``params``."""
    if kind == "params":
        what, params = bytes_of(rng, params)
        return what, graph, params
    if kind == "bytes":
        what, graph = bytes_of(rng, graph)
        return what, graph, params
    document = json.loads(graph, strict=False)
    what = GRAPH_KINDS[kind](rng, document)
    return what, json.dumps(document, ensure_ascii=False).encode(), params
