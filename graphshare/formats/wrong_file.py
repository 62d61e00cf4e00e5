"""Call a wrong file by its name: what a file is that cannot be read as a symbol file, parameters or arrays, and what to do."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from graphshare.errors import Fault
from graphshare.formats.byte_source import SAMPLE, ByteSource
from graphshare.formats.file_kinds import FILE_KINDS, JSON_KINDS, SYMBOL_FILE, TAR, TAR_GZ, TVM_GRAPH, FileKind
from graphshare.formats.gzip_file import MAGIC as GZIP
from graphshare.formats.gzip_file import unpack_start
from graphshare.formats.mxnet.document import TVM_OP, begins_like_json, is_tvm_graph
from graphshare.formats.nearby import suggest_graph, suggest_parameters
from graphshare.formats.open_source import open_source
from graphshare.text.format import format_names, shorten

Wanted = Literal["graph", "parameters", "arrays", "image"]

_NAMES: dict[Wanted, str] = {
    "graph": "a symbol file",
    "parameters": "a parameter file",
    "arrays": "a file of arrays",
    "image": "an image",
}
SYMBOL_HINT = "a symbol file is a JSON object with nodes, arg_nodes and heads; its name usually ends in -symbol.json"


def take_sample(source: ByteSource) -> bytes:
    """Return the bytes by which a file is recognized: its start and its end."""
    start = source.read_at(0, min(SAMPLE, source.size))
    rest = min(SAMPLE, source.size - len(start))
    return start + source.read_at(source.size - rest, rest) if rest else start


def recognize(sample: bytes) -> FileKind | None:
    """Return the kind of file that ``sample`` (see :func:`take_sample`) comes from; None if it is not a known one."""
    if sample.lstrip()[:1] == b"{" and begins_like_json(sample):
        return _recognize_json_text(sample)
    return next((kind for kind in FILE_KINDS if kind.fits(sample)), None)


def recognize_json(value: Mapping[str, Any]) -> FileKind | None:
    """Return the kind of a JSON object that is not a graph of MXNet; None if it is one, or not of a known kind."""
    nodes = value.get("nodes")
    ops = [str(node.get("op")) for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    if nodes is not None and is_tvm_graph(value, ops):
        return TVM_GRAPH
    if value.keys() & set(SYMBOL_FILE.keys) and "b64ndarrays" not in value:
        return None
    return next((kind for kind in JSON_KINDS if value.keys() >= set(kind.keys)), None)


def refuse_file(path: str, wanted: Wanted, *, known: str = "") -> Fault:
    """Return the fault of a file that is not what is ``wanted``. Raises InputError when it cannot be read."""
    with open_source(path) as source:
        return refuse_bytes(take_sample(source), wanted, where=path, known=known)


def refuse_bytes(sample: bytes, wanted: Wanted, *, where: str = "", known: str = "") -> Fault:
    """Return the fault of a file that is not what is ``wanted``; ``known`` is the hint where the file has no name here."""
    if not sample:
        return Fault("is empty", where=where, hint=known or SYMBOL_HINT)
    if sample.startswith(GZIP):
        return _refuse_packed(sample, wanted, where, known or SYMBOL_HINT)
    kind = recognize(sample)
    if kind is None:
        start = describe_start(sample)
        not_json = ", which is not JSON" if wanted == "graph" else ""
        return Fault(f"is not {_NAMES[wanted]}: it starts with {start}{not_json}", where=where, hint=known or SYMBOL_HINT)
    return refuse_kind(kind, wanted, where=where, known=known)


def refuse_json(value: Mapping[str, Any], *, where: str = "") -> Fault | None:
    """Return the one fault of a JSON object that is not meant as a graph of MXNet; None where it may be one."""
    kind = recognize_json(value)
    if kind is not None:
        return refuse_kind(kind, "graph", where=where)
    if value.keys() & set(SYMBOL_FILE.keys):
        return None
    keys = format_names([repr(shorten(key, 30)) for key in value], limit=4)
    name = f"a JSON object with {'the keys' if len(value) > 1 else 'the key'} {keys}" if value else "an empty JSON object"
    return Fault(f"is {name}, not {_NAMES['graph']}", where=where, hint=SYMBOL_HINT)


def refuse_kind(kind: FileKind, wanted: Wanted, *, where: str = "", known: str = "") -> Fault:
    """Return the fault of a file of ``kind`` where another was wanted, with the hint that fits."""
    hint = kind.hint if wanted == "graph" else kind.for_arrays or kind.hint
    if wanted == "graph":
        hint = (suggest_graph(where) if kind.readable else "") or hint or SYMBOL_HINT
    elif kind is SYMBOL_FILE:
        hint = (suggest_parameters(where) or hint) if wanted == "parameters" else known
    return Fault(f"is {kind.name}, not {_NAMES[wanted]}", where=where, hint=_fill_in(hint or known, wanted, where))


def _fill_in(hint: str, wanted: Wanted, where: str) -> str:
    """Return a hint with the path of the file and what is wanted in their places."""
    path = where if os.path.exists(where) else "FILE"
    root, suffix = os.path.splitext(path)
    paths = {"{file}": path, "{utf8}": f"{root}-utf8{suffix}"}
    for place, text in paths.items():
        hint = hint.replace(place, shlex.quote(text))
    return hint.replace("{wanted}", _NAMES[wanted].partition(" ")[2])


def describe_start(data: bytes) -> str:
    """Return the first characters of a text in quotes, or the first bytes of other data as numbers."""
    line = data[:200].split(b"\n")[0].rstrip(b"\r")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    return repr(shorten(text, 40)) if text and text.isprintable() else data[:8].hex(" ")


def _recognize_json_text(sample: bytes) -> FileKind | None:
    """Return the kind of a JSON object by the keys that occur in its text."""

    def occurs(key: str) -> bool:
        return f'"{key}"'.encode() in sample

    if occurs("nodes") and (occurs(TVM_OP) or occurs("dltype")):
        return TVM_GRAPH
    for kind in (*JSON_KINDS[:1], SYMBOL_FILE, *JSON_KINDS[1:]):
        if all(map(occurs, kind.keys)):
            return kind
    return FileKind("JSON")


def _refuse_packed(sample: bytes, wanted: Wanted, where: str, known: str) -> Fault:
    """Return the fault of a gzip file, named by what it holds."""
    inner = unpack_start(sample, SAMPLE)
    kind = recognize(inner) if inner else None
    if kind is TAR:
        return refuse_kind(TAR_GZ, wanted, where=where)
    if kind is None:
        start = f"it starts with {describe_start(inner)}" if inner else "it cannot be unpacked"
        return Fault(f"is compressed with gzip, and what it holds is not {_NAMES[wanted]}: {start}", where=where, hint=known)
    name = f"is {kind.name} compressed with gzip"
    if kind.readable and wanted != "graph":
        return Fault(f"{name}, and arrays are read in place", where=where, hint=_gunzip_line(where))
    fault = refuse_kind(kind, wanted, where=where, known=known)
    if kind.readable:
        hint = suggest_graph(where.removesuffix(".gz")) or "it holds arrays and no graph: give a *-symbol.json"
        fault = msgspec.structs.replace(fault, hint=hint)
    return msgspec.structs.replace(fault, message=f"{name}, not {_NAMES[wanted]}")


def _gunzip_line(path: str) -> str:
    """Return the command that unpacks a file; gunzip takes only names that end in ``.gz``."""
    if not os.path.exists(path):
        return "unpack it first with gunzip"
    if path.endswith(".gz"):
        return f"unpack it first: `gunzip -k {shlex.quote(path)}`"
    root, suffix = os.path.splitext(path)
    return f"unpack it first: `gunzip -c {shlex.quote(path)} > {shlex.quote(f'{root}-unpacked{suffix}')}`"
