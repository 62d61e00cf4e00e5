"""Name the kind of a file that is not the wanted graph, parameters or arrays, and suggest a fix."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from graphshare.errors import Fault
from graphshare.files.byte_source import SAMPLE, ByteSource
from graphshare.files.open_source import GZIP, open_source, unpack_gzip_start
from graphshare.formats.file_kinds import (
    FILE_KINDS,
    JSON_KINDS,
    SYMBOL_FILE,
    TAR,
    TAR_GZ,
    TVM_GRAPH,
    FileKind,
)
from graphshare.formats.model_names import FORMAT_NAMES, suggest_graph, suggest_parameters
from graphshare.formats.mxnet.document import TVM_OP, begins_like_json, is_tvm_graph
from graphshare.text.format import format_names, shorten
from graphshare.text.markup import quote_shell, write_path

Wanted = Literal["graph", "parameters", "arrays", "image"]

_NAMES: dict[Wanted, str] = {
    "graph": "a symbol file",
    "parameters": "a parameter file",
    "arrays": "a file of arrays",
    "image": "an image",
}
_ONNX_ENDINGS = FORMAT_NAMES["onnx"].endings
ONNX_HINT = "export, convert or fetch it again; an ONNX model is a message of protobuf"
SYMBOL_HINT = "a symbol file is a JSON object with nodes, arg_nodes and heads; its name usually ends in -symbol.json"


def name_wanted(wanted: Wanted, where: str) -> str:
    """Return the wanted kind of file, with its article; a graph's kind follows its name."""
    if wanted == "graph" and where.lower().endswith(_ONNX_ENDINGS):
        return "an ONNX model"
    return _NAMES[wanted]


def suggest_fix(where: str) -> str:
    """Return the hint for a file that is not a graph, by its name."""
    return ONNX_HINT if where.lower().endswith(_ONNX_ENDINGS) else SYMBOL_HINT


def take_sample(source: ByteSource) -> bytes:
    """Return the start and the end of a file, enough to recognize it."""
    start = source.read_at(0, min(SAMPLE, source.size))
    rest = min(SAMPLE, source.size - len(start))
    return start + source.read_at(source.size - rest, rest) if rest else start


def recognize(sample: bytes) -> FileKind | None:
    """Return the kind of file of a ``sample`` (:func:`take_sample`), if known."""
    # A text in UTF-16 may begin with this byte, too.
    if sample.lstrip()[:1] == b"{" and begins_like_json(sample):
        return _recognize_json_text(sample)
    return next((kind for kind in FILE_KINDS if kind.fits(sample)), None)


def recognize_json(value: Mapping[str, Any]) -> FileKind | None:
    """Return the kind of a JSON object; None for a graph of MXNet or an unknown kind."""
    nodes = value.get("nodes")
    ops: list[str] = []
    if isinstance(nodes, list):
        ops = [str(node.get("op")) for node in nodes if isinstance(node, dict)]
    if nodes is not None and is_tvm_graph(value, ops):
        return TVM_GRAPH
    if value.keys() & set(SYMBOL_FILE.keys) and "b64ndarrays" not in value:
        return None
    return next((kind for kind in JSON_KINDS if value.keys() >= set(kind.keys)), None)


def refuse_file(path: str, wanted: Wanted, *, known: str = "") -> Fault:
    """Explain that a file is not of the ``wanted`` kind. Raises InputError when it cannot be
    read.
    """
    with open_source(path) as source:
        return refuse_bytes(take_sample(source), wanted, where=path, known=known)


def refuse_bytes(sample: bytes, wanted: Wanted, *, where: str = "", known: str = "") -> Fault:
    """Explain that a file is not of the ``wanted`` kind; ``known`` is the hint for an unknown
    kind.
    """
    hint = known or suggest_fix(where)
    if not sample:
        return Fault("is empty", where=where, hint=hint)
    if sample.startswith(GZIP):
        return _refuse_packed(sample, wanted, where, hint)
    kind = recognize(sample)
    if kind is not None:
        return refuse_kind(kind, wanted, where=where, known=known)
    name = name_wanted(wanted, where)
    message = f"is not {name}: it starts with {describe_start(sample)}"
    if name == _NAMES["graph"]:
        message += ", which is not JSON"
    return Fault(message, where=where, hint=hint)


def refuse_json(value: Mapping[str, Any], *, where: str = "") -> Fault | None:
    """Return the fault of a JSON object that is not an MXNet graph."""
    kind = recognize_json(value)
    if kind is not None:
        return refuse_kind(kind, "graph", where=where)
    if value.keys() & set(SYMBOL_FILE.keys):
        return None
    name = "an empty JSON object"
    if value:
        keys = format_names([repr(shorten(key, 30)) for key in value], limit=4)
        name = f"a JSON object with {'the keys' if len(value) > 1 else 'the key'} {keys}"
    message = f"is {name}, not {name_wanted('graph', where)}"
    return Fault(message, where=where, hint=suggest_fix(where))


def refuse_kind(kind: FileKind, wanted: Wanted, *, where: str = "", known: str = "") -> Fault:
    """Explain that a file of ``kind`` is not the wanted one, with a fitting hint."""
    hint = kind.for_arrays or kind.hint
    if wanted == "graph":
        graph = suggest_graph(where) if kind.readable else ""
        hint = graph or kind.hint or suggest_fix(where)
    elif kind is SYMBOL_FILE and wanted == "parameters":
        hint = suggest_parameters(where) or hint
    elif kind is SYMBOL_FILE:
        hint = known
    message = f"is {kind.name}{_contrast(kind, wanted, where)}"
    return Fault(message, where=where, hint=_fill_in(hint or known, wanted, where))


def _contrast(kind: FileKind, wanted: Wanted, where: str) -> str:
    """Models in another form are not read; other files were not wanted."""
    if kind.is_model and wanted == "graph":
        return ", which graphshare does not read"
    return f", not {name_wanted(wanted, where)}"


def _fill_in(hint: str, wanted: Wanted, where: str) -> str:
    path = where if os.path.exists(where) else "FILE"
    root, suffix = os.path.splitext(path)
    converted = f"{root}-converted.onnx" if suffix == ".onnx" else f"{root}.onnx"
    paths = {"{file}": path, "{utf8}": f"{root}-utf8{suffix}", "{onnx}": converted}
    for place, text in paths.items():
        hint = hint.replace(place, quote_shell(write_path(text)))
    return hint.replace("{wanted}", name_wanted(wanted, where).partition(" ")[2])


def describe_start(data: bytes) -> str:
    """Return the first characters of a text in quotes, or the first bytes as numbers."""
    line = data[:200].split(b"\n")[0].rstrip(b"\r")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable():
        return repr(shorten(text, 40))
    return data[:8].hex(" ")


def _recognize_json_text(sample: bytes) -> FileKind | None:
    # The sample is cut out of the text, so no parser can read it.
    def occurs(key: str) -> bool:
        return f'"{key}"'.encode() in sample

    if occurs("nodes") and (occurs(TVM_OP) or occurs("dltype")):
        return TVM_GRAPH
    for kind in (*JSON_KINDS[:1], SYMBOL_FILE, *JSON_KINDS[1:]):
        if all(map(occurs, kind.keys)):
            return kind
    return FileKind("JSON")


def _refuse_packed(sample: bytes, wanted: Wanted, where: str, known: str) -> Fault:
    inner = unpack_gzip_start(sample, SAMPLE)
    kind = recognize(inner) if inner else None
    if kind is TAR:
        return refuse_kind(TAR_GZ, wanted, where=where)
    if kind is None:
        start = f"it starts with {describe_start(inner)}" if inner else "it cannot be unpacked"
        message = (
            f"is compressed with gzip, and its content is not {name_wanted(wanted, where)}: {start}"
        )
        return Fault(message, where=where, hint=known)
    name = f"is {kind.name} compressed with gzip"
    if kind.readable and wanted != "graph":
        return Fault(f"{name}, and arrays are read in place", where=where, hint=_gunzip_line(where))
    fault = refuse_kind(kind, wanted, where=where, known=known)
    if kind.readable:
        graph = suggest_graph(where.removesuffix(".gz"))
        hint = graph or "it holds arrays and no graph: give a *-symbol.json"
        fault = msgspec.structs.replace(fault, hint=hint)
    return msgspec.structs.replace(fault, message=f"{name}{_contrast(kind, wanted, where)}")


def _gunzip_line(path: str) -> str:
    """gunzip takes only names that end in ``.gz``."""
    if not os.path.exists(path):
        return "unpack it first with gunzip"
    if path.endswith(".gz"):
        return f"unpack it first: `gunzip -k {quote_shell(write_path(path))}`"
    path = write_path(path)
    root, suffix = os.path.splitext(path)
    return f"unpack it first: `gunzip -c {quote_shell(path)} > {quote_shell(f'{root}-unpacked{suffix}')}`"
