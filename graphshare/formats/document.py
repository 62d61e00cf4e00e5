"""Bytes to a checked JSON document: what a symbol file may hold, before anything is linked.

The fast pass is a typed decode that keeps the order of keys. When it fails, a tolerant pass reads what MXNet writes and strict
JSON forbids (raw control characters inside strings) and what only unknown keys hold (values of any type); if that fails too,
the schema explains every fault. Refused with the reason: a byte order mark, invalid UTF-8, trailing bytes, unclosed brackets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from mmap import mmap
from typing import Annotated, Any

import msgspec

from graphshare.errors import Fault, InputError

Id = Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]
Triple = Annotated[tuple[Id, ...], msgspec.Meta(min_length=2, max_length=3)]
# One type for the values of every key: a typed dict of known keys would lose the unknown ones and the order. Which key may
# hold which of these is checked while linking, where each value is looked at anyway.
NodeRecord = dict[str, str | int | dict[str, str] | list[Triple | Id | dict[str, Any]]]
GraphRecord = dict[str, list[NodeRecord | Triple | Id] | dict[str, Any] | str | int]

Buffer = bytes | mmap

NODE_KEYS = frozenset(("op", "name", "attrs", "attr", "param", "inputs", "control_deps", "subgraphs", "backward_source_id"))
GRAPH_KEYS = frozenset(("nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"))
MAX_NESTING = 64

_decoder = msgspec.json.Decoder(GraphRecord)
_chunk_decoder = msgspec.json.Decoder(list[NodeRecord])

# MXNet's layout lets a large file be decoded piece by piece, without a million records in memory at once: a line break
# cannot stand inside a string, so these texts stand between nodes of the outermost graph and nowhere else.
_OPENING = b'{\n  "nodes": [\n    {'
_BETWEEN = b"\n    }, \n    {"
_CLOSING = b'\n    }\n  ], \n  "'
_BRACE = len(b"\n    }")
_CHUNK = 1 << 18  # bytes


Records = Iterable[dict[str, Any]]


def parse_in_chunks(data: Buffer) -> tuple[dict[str, Any], Records] | None:
    """The graph object without its nodes, and the node records as they are decoded; None for a small file or another layout.

    Values are typed but not yet held against their keys. Decoding the records may raise ValueError: then the text is no
    symbol file or holds what strict JSON forbids.
    """
    if len(data) < 2 * _CHUNK or data[: len(_OPENING)] != _OPENING:
        return None
    end = data.rfind(_CLOSING)
    frame = data[: len(_OPENING) - 1] + data[end + _BRACE :]
    if end < 0 or frame.count(b'"nodes"') != 1:
        return None
    return _decoder.decode(frame), chain.from_iterable(_chunks(data, end + _BRACE))


def parse_whole(data: Buffer) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The graph object and its node records, values typed but not yet held against their keys.

    Raises:
        ValueError: the text is no symbol file, or holds what strict JSON forbids.
    """
    found: dict[str, Any] = _decoder.decode(data)
    return found, found["nodes"]


def _chunks(data: Buffer, end: int) -> Iterator[list[dict[str, Any]]]:
    start = len(_OPENING) - 1
    while start < end:
        at = data.find(_BETWEEN, start + _CHUNK, end)
        stop = end if at < 0 else at + _BRACE
        yield _chunk_decoder.decode(b"[" + data[start:stop] + b"]")
        start = stop if at < 0 else at + len(_BETWEEN) - 1


def parse_tolerantly(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The graph object and its node records, checked against the schema.

    Raises:
        InputError: the bytes are not JSON, or not a graph; every fault the schema finds is listed.
    """
    _refuse_encodings(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = Fault(f"is not UTF-8: {error.reason}", path=f"byte {error.start}", hint="re-encode the file as UTF-8")
        raise InputError(fault) from None
    try:
        loaded = json.loads(text, strict=False, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InputError(_malformed(error, text)) from None
    except RecursionError:
        raise InputError(Fault("is nested far deeper than any symbol file")) from None
    except ValueError as error:
        raise InputError(Fault(f"is not JSON: {error}")) from None
    from graphshare.formats.schema import explain

    faults = explain(loaded, "symbol")
    if faults:
        raise InputError(faults)
    return loaded, loaded["nodes"]


def _refuse_encodings(data: bytes) -> None:
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise InputError(
            Fault("starts with a byte order mark; MXNet refuses it too", path="byte 0", hint="save it as UTF-8 without BOM")
        )
    if not data.strip():
        raise InputError(Fault("is empty", hint="a symbol file is a JSON object with nodes, arg_nodes and heads"))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _malformed(error: json.JSONDecodeError, text: str) -> Fault:
    at_end = not text[error.pos :].strip()
    if error.msg == "Extra data":
        message, hint = "has trailing bytes after the graph", "remove what follows the last brace"
    elif at_end or error.msg.startswith("Unterminated string"):
        message, hint = "ends inside the graph: the file is truncated", "fetch or save it again"
    else:
        message, hint = f"is not JSON: {error.msg}", ""
    return Fault(message, path=f"line {error.lineno} column {error.colno}", hint=hint)
