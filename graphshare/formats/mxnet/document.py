"""Decode a symbol file to a checked JSON document with keys in order, before anything is linked.

If this typed decode fails, :mod:`graphshare.formats.mxnet.tolerant` reads the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from mmap import mmap
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.progress import Advance, noop_progress

Id = Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]
Triple = Annotated[tuple[Id, ...], msgspec.Meta(min_length=2, max_length=3)]
# One type for the values of all keys: a typed dict would lose unknown keys and the order. Linking
# checks each value against its key.
NodeRecord = dict[str, str | int | dict[str, str] | list[Triple | Id | dict[str, Any]]]
GraphRecord = dict[str, list[NodeRecord | Triple | Id] | dict[str, Any] | str | int]

Buffer = bytes | mmap

NODE_KEYS = frozenset(
    (
        "op",
        "name",
        "attrs",
        "attr",
        "param",
        "inputs",
        "control_deps",
        "subgraphs",
        "backward_source_id",
    )
)
GRAPH_KEYS = frozenset(("nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"))
TVM_OP = "tvm_op"
# TVM's graph executor keeps an element for each output in these lists, so a rewrite would break
# them. MXNet has no operator ``tvm_op``.
_TVM_LISTS = frozenset(("storage_id", "dltype", "device_index"))
MAX_NESTING = 64
_LISTS_OF_IDS = ("arg_nodes", "node_row_ptr")

_decoder = msgspec.json.Decoder(GraphRecord)
_chunk_decoder = msgspec.json.Decoder(list[NodeRecord])

# MXNet's layout lets a large file be decoded in pieces, to save memory: a line break cannot stand
# inside a string, so these texts only occur between nodes of the outermost graph.
_OPENING = b'{\n  "nodes": [\n    {'
_BETWEEN = b"\n    }, \n    {"
_CLOSING = b'\n    }\n  ], \n  "'
_BRACE = len(b"\n    }")
_CHUNK = 1 << 18  # bytes


_AFTER_NODE = rb"[ \t\n\r]*(?:,[ \t\n\r]*(?=\{)|(?=\]))"
# Scalars are JSON too, and the message says so.
_GRAPH_KEY = rb"(?:\xef\xbb\xbf)?\s*\{\s*\"(?:nodes|arg_nodes|node_row_ptr|heads|attrs)\"\s*:"
_SCALAR = rb"\s*(?:[-+.0-9eE]+|true|false|null|\"[^\"]*\")\s*\Z"

Records = Iterable[dict[str, Any]]


def begins_like_json(start: bytes) -> bool:
    """Whether a text with this start may be JSON, even if empty or after a byte order mark."""
    first = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if b"\0" in start[:4]:  # UTF-16
        return False
    return not first or first in b"{[" or re.match(_SCALAR, start) is not None


def begins_like_graph(start: bytes) -> bool:
    """Whether a text begins with an object whose first key is only a graph's."""
    return re.match(_GRAPH_KEY, start) is not None


def nodes_span(data: Buffer) -> tuple[int, int] | None:
    """Return where a large file in MXNet's layout has its nodes, first brace to last."""
    if len(data) < 2 * _CHUNK or data[: len(_OPENING)] != _OPENING:
        return None
    end = data.rfind(_CLOSING)
    return None if end < 0 else (len(_OPENING) - 1, end + _BRACE)


def parse_frame(data: Buffer, span: tuple[int, int]) -> dict[str, Any]:
    """Return the graph object without its nodes; values are not yet checked against their keys.

    Raises:
        ValueError: the text is not a symbol file, or breaks the rules of strict JSON.
    """
    graph_object: dict[str, Any] = _decoder.decode(_frame(data, span))
    return graph_object


class PlainRecord(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A node with only the usual keys. ``attrs`` is the text of the map, or empty."""

    op: str
    name: str
    inputs: list[Triple]
    attrs: msgspec.Raw = msgspec.Raw(b"")


class PlainOldRecord(PlainRecord, rename={"attrs": "attr"}, gc=False):
    """A node of a file from before 1.0."""


class PlainOldestRecord(PlainRecord, rename={"attrs": "param"}, gc=False):
    """A node of a file from 2015."""


PLAIN_RECORDS: dict[str, type[PlainRecord]] = {
    "attrs": PlainRecord,
    "attr": PlainOldRecord,
    "param": PlainOldestRecord,
}


class PlainEnds(msgspec.Struct, forbid_unknown_fields=True):
    """The usual keys of a written graph; ``nodes`` and ``node_row_ptr`` are compared elsewhere."""

    nodes: msgspec.Raw
    arg_nodes: list[Id]
    heads: list[Triple]
    node_row_ptr: msgspec.Raw = msgspec.Raw(b"")
    attrs: dict[str, Any] = {}


def parse_plain_ends(data: Buffer, span: tuple[int, int] | None) -> PlainEnds:
    """Return variables and heads; ``span`` locates the nodes of a large file.

    Raises ValueError as :func:`parse_frame`.
    """
    return _ends_decoder.decode(data if span is None else _frame(data, span))


def parse_plain_nodes(
    data: Buffer,
    span: tuple[int, int] | None,
    attr_key: str,
    *,
    after: int = 0,
    advance: Advance = noop_progress,
) -> Iterable[PlainRecord]:
    """Return the nodes of a file with attributes under ``attr_key``; ``span`` locates them in a
    large file.

    A node must end at ``after``; earlier ones are skipped. ``advance`` receives numbers of bytes.

    Raises:
        ValueError: as :func:`parse_frame`; also while the records are taken.
    """
    record = PLAIN_RECORDS[attr_key]
    if span is None:
        plain: list[PlainRecord] = msgspec.json.decode(data, type=_Nodes[record]).nodes  # type: ignore[valid-type]
        return plain
    return _in_chunks(data, span, after, msgspec.json.Decoder(list[record]), advance)  # type: ignore[valid-type]


def parse_bare_nodes(
    data: Buffer, span: tuple[int, int], advance: Advance = noop_progress
) -> Iterable[PlainRecord]:
    """Return the nodes of a large file whose keys are usual and in the usual order.

    Raises:
        ValueError: there are others, or as :func:`parse_nodes`; also while the records are taken.
    """
    # Structs lose the order of keys. A later node in another order is noticed on writing: its text
    # then differs from the layout's, and is kept (layout.py).
    first = next(_chunks(data, *span, _chunk_decoder, noop_progress), [])
    if not _USUAL_KEYS.issuperset(map(tuple, first)):
        raise ValueError("keys are not in MXNet's order")
    return _in_chunks(data, span, 0, _bare_decoder, advance)


def cut_nodes(data: Buffer, start: int, end: int) -> bytes:
    """Return a text without its first nodes, ``data[start:end]``, and the comma after them.

    Raises:
        ValueError: neither another node nor the end of the array follows.
    """
    rest = re.compile(_AFTER_NODE).match(data, end)
    if rest is None:
        raise ValueError("no node ends there")
    return data[:start] + data[rest.end() :]


decode_map = msgspec.json.Decoder(dict[str, str]).decode
_bare_decoder = msgspec.json.Decoder(list[PlainRecord])
_USUAL_KEYS = frozenset((("op", "name", "inputs"), ("op", "name", "attrs", "inputs")))
_Record = TypeVar("_Record")


class _Nodes(msgspec.Struct, Generic[_Record]):
    nodes: list[_Record]


_ends_decoder = msgspec.json.Decoder(PlainEnds)


def _frame(data: Buffer, span: tuple[int, int]) -> bytes:
    frame = data[: span[0]] + data[span[1] :]
    # If a key repeats, the last one counts, perhaps not the one that was cut out.
    if frame.count(b'"nodes"') != 1:
        raise ValueError("nodes stand in two places")
    return frame


def parse_nodes(data: Buffer, span: tuple[int, int], advance: Advance = noop_progress) -> Records:
    """Decode the records of the nodes in ``span``, a piece of the text at a time.

    Raises:
        ValueError: as :func:`parse_frame`; also while the records are taken.
    """
    return _in_chunks(data, span, 0, _chunk_decoder, advance)


def parse_whole(data: Buffer) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the graph object and its node records; values are not yet checked against their keys.

    Raises:
        ValueError: as :func:`parse_frame`.
    """
    graph_object: dict[str, Any] = _decoder.decode(data)
    return graph_object, graph_object["nodes"]


def check_kinds(graph_object: Mapping[str, Any]) -> None:
    """Check the values of a graph object against their keys, after the typed decode.

    Raises:
        TypeError: a key has a value that only another key may have.
        InputError: a value of an unknown key is nested deeper than ``MAX_NESTING``.
    """
    for key in ("nodes", "arg_nodes", "node_row_ptr", "heads"):
        values = graph_object.get(key, [])
        if type(values) is not list or (
            key in _LISTS_OF_IDS and not {int}.issuperset(map(type, values))
        ):
            raise TypeError(key)
    if type(graph_object.get("attrs", {})) is not dict:
        raise TypeError("attrs")
    check_nesting(
        value for key, value in graph_object.items() if key == "attrs" or key not in GRAPH_KEYS
    )


def is_tvm_graph(graph_object: Mapping[str, Any], ops: Iterable[str]) -> bool:
    """Whether a graph object with the operators ``ops`` is one of TVM's graph executor."""
    attrs = graph_object.get("attrs")
    return (isinstance(attrs, Mapping) and not _TVM_LISTS.isdisjoint(attrs)) or TVM_OP in ops


def check_nesting(values: Iterable[Any]) -> None:
    """Raise InputError for values that are nested deeper than ``MAX_NESTING``."""
    level = [value for value in values if isinstance(value, (dict, list, tuple))]
    for _ in range(MAX_NESTING):
        inner = chain.from_iterable(
            value.values() if isinstance(value, dict) else value for value in level
        )
        level = [value for value in inner if isinstance(value, (dict, list, tuple))]
        if not level:
            return
    raise InputError(Fault(f"holds a value that is nested deeper than {MAX_NESTING} levels"))


def _in_chunks(
    data: Buffer,
    span: tuple[int, int],
    after: int,
    decoder: msgspec.json.Decoder[list[_Record]],
    advance: Advance,
) -> Iterator[_Record]:
    start, end = span
    if after:
        # _BETWEEN begins with the brace that ends a node, and ends with the next node's brace.
        start = end if after == end else after + len(_BETWEEN) - 1 - _BRACE
        if after not in (end, data.find(_BETWEEN, after - _BRACE, start + 1) + _BRACE):
            raise ValueError("no node ends there")
    return chain.from_iterable(_chunks(data, start, end, decoder, advance))


def _chunks(
    data: Buffer,
    start: int,
    end: int,
    decoder: msgspec.json.Decoder[list[_Record]],
    advance: Advance,
) -> Iterator[list[_Record]]:
    while start < end:
        at = data.find(_BETWEEN, start + _CHUNK, end)
        stop = end if at < 0 else at + _BRACE
        yield decoder.decode(b"[" + data[start:stop] + b"]")
        advance(stop - start)
        start = stop if at < 0 else at + len(_BETWEEN) - 1
