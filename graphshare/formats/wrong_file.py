"""Name the kind of a file that is not the symbol file, parameters or arrays that were wanted, and suggest what to do.

``FILE_KINDS`` and ``JSON_KINDS`` are the one table of kinds of files, each recognized by its content. A new kind is a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from graphshare.errors import Fault
from graphshare.files.byte_source import SAMPLE, ByteSource
from graphshare.files.open_source import GZIP, open_source, unpack_gzip_start
from graphshare.formats.content_tests import is_caffemodel, is_image, is_markup, is_onnx, is_onnx_tensor, is_saved_model
from graphshare.formats.model_names import suggest_graph, suggest_parameters
from graphshare.formats.mxnet.document import TVM_OP, begins_like_json, is_tvm_graph
from graphshare.text.format import format_names, shorten
from graphshare.text.markup import quote_shell


class FileKind(msgspec.Struct, frozen=True):
    """A kind of file.

    A file is of this kind if it begins with one of ``starts`` (at byte ``at``), contains one of ``contains``, and fulfils
    ``test``; empty ones are not tested. ``keys`` are the keys of a JSON object of this kind. ``name`` has its article.
    ``hint`` is the way out; ``for_arrays`` replaces it where parameters or arrays are wanted. In both ``{file}`` stands for
    the path, ``{utf8}`` for a path beside it (both quoted for a shell), and ``{wanted}`` for the kind of file that is wanted.
    ``readable`` is True for files whose arrays graphshare reads.
    """

    name: str
    hint: str = ""
    for_arrays: str = ""
    starts: tuple[bytes, ...] = ()
    at: int = 0
    contains: tuple[bytes, ...] = ()
    test: Callable[[bytes], bool] | None = None
    keys: tuple[str, ...] = ()
    readable: bool = False

    def fits(self, sample: bytes) -> bool:
        """Return whether a file that ``sample`` was taken from, its start and its end, is of this kind."""
        return (
            (not self.starts or sample.startswith(self.starts, self.at))
            and (not self.contains or any(text in sample for text in self.contains))
            and (self.test is None or self.test(sample))
        )


def _wide_text(encoding: str, pattern: bytes) -> FileKind:
    """Return the kind of a text in UTF-16 or UTF-32; ``pattern`` matches its start: a byte order mark, or ASCII with NULs."""
    start = re.compile(pattern)
    convert = f"`iconv -f {encoding} -t UTF-8 {{file}} > {{utf8}}`"
    return FileKind(
        f"text in {encoding}",
        f"write it as UTF-8: {convert}" + ("; PowerShell's `>` writes UTF-16: use -o there" if "16" in encoding else ""),
        "it is text; arrays are binary",
        test=lambda sample: start.match(sample) is not None,
    )


_PAGE = is_markup(rb"!doctype html", b"html", b"head", b"body")
# Protocol 0 is text: a dict, a list, or the class of an object.
_TEXT_PICKLE = re.compile(rb"\((?:dp|lp)\d+\n|c[A-Za-z_.]+\n[A-Za-z_]+\n")
_PROTOTXT = re.compile(rb"(?:\s|#[^\n]*\n)*(?:name\s*:\s*\"|layers?\s*\{|input\s*:\s*\")")

_PAGE_HINT = "it is a page about the file, or an error page: download the file itself (on GitHub: Raw)"
_BESIDE = "the graph is the *-symbol.json beside it"
_DOWNLOAD_FAILED = "the download or the copy failed: fetch it again"
_UNZIP = "unpack it with `unzip {file}`, then give the {wanted} in it"
_OTHER_FRAMEWORK = "graphshare reads MXNet models (a *-symbol.json and its parameter file) and ONNX models"
_WITH_PARAMS = "it holds arrays and no graph: give the *-symbol.json as GRAPH, and this file with `params`"
_NO_ARRAYS = "it holds pixels, not parameters"
_SAVE_ARRAYS = "save its arrays with numpy.savez where it comes from"
_NOT_UNPICKLED = "a pickle can run any code, so it is never loaded: "

_TAR = FileKind("a tar archive", "unpack it with `tar xf {file}`, then give the {wanted} in it", starts=(b"ustar",), at=257)
_TAR_GZ = FileKind("a tar archive compressed with gzip", "unpack it with `tar xzf {file}`, then give the {wanted} in it")
#: The first kind that fits counts: special kinds stand before general ones.
FILE_KINDS = (
    # Placeholders and error pages that stand where a file should be
    FileKind(
        "a Git LFS pointer",
        "run `git lfs pull` in its repository to fetch the file itself",
        starts=(b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/"),
    ),
    FileKind(
        "a DVC pointer",
        "run `dvc pull {file}` to fetch the file itself",
        starts=(b"outs:\n- md5:", b"md5: "),
    ),
    FileKind("a git-annex pointer", "run `git annex get {file}` to fetch the file itself", starts=(b"/annex/objects/",)),
    FileKind(
        "an error message from a storage server (XML)",
        "the download failed: the file says why; fetch it again",
        test=is_markup(b"error"),
    ),
    FileKind("an OpenVINO model (XML)", _OTHER_FRAMEWORK, _SAVE_ARRAYS, test=is_markup(b"net")),
    FileKind(
        "a web page (HTML)",
        _PAGE_HINT,
        test=_PAGE,
    ),
    FileKind("XML", test=lambda sample: re.match(rb"\s*(?:\xef\xbb\xbf)?<\?xml\s", sample) is not None),
    FileKind("a PDF document", starts=(b"%PDF-",)),
    # Archives
    FileKind(
        "a PyTorch model (TorchScript)", _OTHER_FRAMEWORK, _SAVE_ARRAYS, starts=(b"PK\x03\x04",), contains=(b"/constants.pkl",)
    ),
    FileKind(
        "a PyTorch checkpoint (torch.save)",
        _OTHER_FRAMEWORK,
        _NOT_UNPICKLED + "in PyTorch, save the state dict with safetensors.torch.save_file",
        starts=(b"PK\x03\x04",),
        contains=(b"/data.pkl",),
    ),
    FileKind(
        "a Keras model (.keras)", _OTHER_FRAMEWORK, _SAVE_ARRAYS, starts=(b"PK\x03\x04",), contains=(b"model.weights.h5",)
    ),
    FileKind("an archive of a model server (.mar)", _UNZIP, starts=(b"PK\x03\x04",), contains=(b"MAR-INF/", b"-symbol.json")),
    FileKind("a NumPy archive (.npz)", _WITH_PARAMS, starts=(b"PK\x03\x04",), contains=(b".npy",), readable=True),
    FileKind("a zip archive", _UNZIP, starts=(b"PK\x03\x04", b"PK\x05\x06")),
    _TAR,
    FileKind("a 7-Zip archive", "unpack it with `7z x {file}`, then give the {wanted} in it", starts=(b"7z\xbc\xaf\x27\x1c",)),
    FileKind("a RAR archive", "unpack it with `unrar x {file}`, then give the {wanted} in it", starts=(b"Rar!\x1a\x07",)),
    FileKind("compressed with bzip2", "unpack it first: `bunzip2 -k {file}`", starts=(b"BZh",)),
    FileKind("compressed with xz", "unpack it first: `xz -dk {file}`", starts=(b"\xfd7zXZ\0",)),
    FileKind("compressed with Zstandard", "unpack it first: `zstd -d {file}`", starts=(b"\x28\xb5\x2f\xfd",)),
    FileKind("compressed with LZ4", "unpack it first: `lz4 -d {file}`", starts=(b"\x04\x22\x4d\x18",)),
    # Arrays
    FileKind("a parameter file (.params)", _WITH_PARAMS, starts=(b"\x12\x01\0\0\0\0\0\0",), readable=True),
    FileKind(
        "a parameter file (.safetensors)",
        _WITH_PARAMS,
        test=lambda sample: sample[8:9] == b"{" and 0 < int.from_bytes(sample[:8], "little") < 1 << 40,
        readable=True,
    ),
    FileKind(
        "a NumPy array (.npy)",
        "`run` and `verify` take it as `feeds={NAME: {file}}`: the values of a variable",
        "its array has no name: numpy.savez('x.npz', name=array) saves arrays with names",
        starts=(b"\x93NUMPY",),
        readable=True,
    ),
    FileKind(
        "a Keras model (HDF5)",
        _OTHER_FRAMEWORK,
        "save its arrays with numpy.savez where it comes from; h5py reads them",
        starts=(b"\x89HDF\r\n\x1a\n",),
        contains=(b"keras_version", b"layer_names", b"model_weights"),
    ),
    FileKind(
        "an HDF5 file",
        _OTHER_FRAMEWORK,
        "h5py reads its arrays, and numpy.savez saves them",
        starts=(b"\x89HDF\r\n\x1a\n",),
    ),
    FileKind(
        "a parameter dict of TVM",
        _OTHER_FRAMEWORK,
        "tvm.runtime.load_param_dict reads its arrays, and numpy.savez saves them",
        starts=(b"\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7",),
    ),
    FileKind("a RecordIO file (.rec)", "it holds training data, not a model", starts=(b"\x0a\x23\xd7\xce",)),
    # Models of other frameworks
    FileKind(
        "a PyTorch checkpoint (torch.save)",
        _OTHER_FRAMEWORK,
        _NOT_UNPICKLED + "in PyTorch, save the state dict with safetensors.torch.save_file",
        # The pickled magic number 0x1950a86a20f9469cfc6c, before the zip archives of PyTorch 1.6.
        starts=(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",),
    ),
    FileKind(
        "a Python pickle",
        _NOT_UNPICKLED + "give a *-symbol.json (a .states file of MXNet holds the state of an optimizer)",
        _NOT_UNPICKLED + "save the arrays with numpy.savez where it comes from",
        test=lambda sample: re.match(rb"\x80[\x02-\x05]", sample) is not None or _TEXT_PICKLE.match(sample) is not None,
    ),
    FileKind(
        "an ONNX model",
        "give it as GRAPH: it is a model of its own",
        "it is a model with its parameters: give it as GRAPH",
        test=is_onnx,
    ),
    FileKind(
        "an ONNX tensor",
        _OTHER_FRAMEWORK,
        "onnx.numpy_helper.to_array reads it (after onnx.load_tensor), and numpy.save saves it",
        test=is_onnx_tensor,
    ),
    FileKind("a TensorFlow Lite model", _OTHER_FRAMEWORK, _SAVE_ARRAYS, starts=(b"TFL3",), at=4),
    FileKind("a TensorFlow model", _OTHER_FRAMEWORK, _SAVE_ARRAYS, test=is_saved_model),
    FileKind("a Caffe model (.caffemodel)", _OTHER_FRAMEWORK, _SAVE_ARRAYS, test=is_caffemodel),
    FileKind("a Caffe network (.prototxt)", _OTHER_FRAMEWORK, test=lambda sample: _PROTOTXT.match(sample) is not None),
    FileKind("an ncnn network (.param)", _OTHER_FRAMEWORK, starts=(b"7767517\n", b"7767517\r")),
    FileKind("a GGUF file", _OTHER_FRAMEWORK, _SAVE_ARRAYS, starts=(b"GGUF",)),
    FileKind("a compiled program or library", starts=(b"\x7fELF", b"\xcf\xfa\xed\xfe", b"MZ\x90\0")),
    FileKind("an image", "`run` and `verify` take it as `feeds={NAME: {file}}`", _NO_ARRAYS, test=is_image),
    # Texts
    FileKind("a file of nothing but NUL bytes", _DOWNLOAD_FAILED, test=lambda sample: not any(sample)),
    # UTF-32 stands before UTF-16: the byte order mark of UTF-16LE begins that of UTF-32LE.
    _wide_text("UTF-32", rb"\xff\xfe\0\0|\0\0\xfe\xff"),
    _wide_text("UTF-32LE", rb"(?:[\t\n\r -~]\0\0\0){4}"),
    _wide_text("UTF-32BE", rb"(?:\0\0\0[\t\n\r -~]){4}"),
    _wide_text("UTF-16", rb"\xff\xfe|\xfe\xff"),
    _wide_text("UTF-16LE", rb"(?:[\t\n\r -~]\0){4}"),
    _wide_text("UTF-16BE", rb"(?:\0[\t\n\r -~]){4}"),
    FileKind("a text file with a URL", "fetch what the URL names: `curl -LO URL`", starts=(b"https://", b"http://")),
)

#: Kinds of JSON objects, by keys that all of them have.
JSON_KINDS = (
    FileKind("a graph of TVM's Relay", _OTHER_FRAMEWORK, keys=("root", "nodes", "b64ndarrays")),
    FileKind("a graphshare map file", "give the symbol file itself", keys=("sources", "entries")),
    FileKind("a graphshare rules file", "give it with `rules`", keys=("version", "rules")),
    FileKind("a graphshare report", "give the symbol file itself", keys=("command", "findings")),
    FileKind("a report of `graphshare inspect`", "give the symbol file itself", keys=("arguments", "auxiliary_states", "ops")),
    FileKind("a Keras model (JSON)", _OTHER_FRAMEWORK, keys=("class_name", "config")),
    FileKind("a TensorFlow.js model", _OTHER_FRAMEWORK, keys=("modelTopology",)),
    FileKind("an ONNX model as JSON", _OTHER_FRAMEWORK, keys=("irVersion", "graph")),
    FileKind(
        "an index of .safetensors files",
        "it names files of arrays, and none of them has a graph: give a *-symbol.json",
        "give the .safetensors files that it names",
        keys=("metadata", "weight_map"),
    ),
    FileKind("a Hugging Face configuration", _OTHER_FRAMEWORK, keys=("model_type",)),
    FileKind("a Hugging Face configuration", _OTHER_FRAMEWORK, keys=("architectures",)),
    FileKind("a Jupyter notebook", keys=("cells", "nbformat")),
    FileKind("a signature for a model server", _BESIDE, keys=("inputs", "outputs", "input_type")),
    FileKind("a manifest of a model server", _BESIDE, keys=("Engine", "Model")),
    FileKind("a manifest of a model server", _BESIDE, keys=("model", "runtime")),
    FileKind("an error message from a server (JSON)", _DOWNLOAD_FAILED, keys=("message", "documentation_url")),
    FileKind("an error message from a server (JSON)", _DOWNLOAD_FAILED, keys=("error",)),
)

_TVM_GRAPH = FileKind(
    "a graph of TVM's graph executor",
    "TVM has compiled it: give the symbol file of MXNet that it was compiled from",
    "TVM saves the parameters of such a graph in a file of their own",
)
_SYMBOL_FILE = FileKind(
    "a symbol file (a graph)",
    for_arrays="parameters are in a file of their own, usually *-0000.params",
    keys=("nodes", "arg_nodes", "heads"),
)


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
    # A text in UTF-16 may begin with this byte, too.
    if sample.lstrip()[:1] == b"{" and begins_like_json(sample):
        return _recognize_json_text(sample)
    return next((kind for kind in FILE_KINDS if kind.fits(sample)), None)


def recognize_json(value: Mapping[str, Any]) -> FileKind | None:
    """Return the kind of a JSON object that is not a graph of MXNet; None if it is one, or not of a known kind."""
    nodes = value.get("nodes")
    ops = [str(node.get("op")) for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    if nodes is not None and is_tvm_graph(value, ops):
        return _TVM_GRAPH
    if value.keys() & set(_SYMBOL_FILE.keys) and "b64ndarrays" not in value:
        return None
    return next((kind for kind in JSON_KINDS if value.keys() >= set(kind.keys)), None)


def refuse_file(path: str, wanted: Wanted, *, known: str = "") -> Fault:
    """Return the fault of a file that is not of the ``wanted`` kind. Raises InputError when it cannot be read."""
    with open_source(path) as source:
        return refuse_bytes(take_sample(source), wanted, where=path, known=known)


def refuse_bytes(sample: bytes, wanted: Wanted, *, where: str = "", known: str = "") -> Fault:
    """Return the fault of a file that is not of the ``wanted`` kind; ``known`` is the hint for an unknown kind."""
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
    if value.keys() & set(_SYMBOL_FILE.keys):
        return None
    keys = format_names([repr(shorten(key, 30)) for key in value], limit=4)
    name = f"a JSON object with {'the keys' if len(value) > 1 else 'the key'} {keys}" if value else "an empty JSON object"
    return Fault(f"is {name}, not {_NAMES['graph']}", where=where, hint=SYMBOL_HINT)


def refuse_kind(kind: FileKind, wanted: Wanted, *, where: str = "", known: str = "") -> Fault:
    """Return the fault of a file of ``kind`` where another was wanted, with the hint that fits."""
    hint = kind.hint if wanted == "graph" else kind.for_arrays or kind.hint
    if wanted == "graph":
        hint = (suggest_graph(where) if kind.readable else "") or hint or SYMBOL_HINT
    elif kind is _SYMBOL_FILE:
        hint = (suggest_parameters(where) or hint) if wanted == "parameters" else known
    return Fault(f"is {kind.name}, not {_NAMES[wanted]}", where=where, hint=_fill_in(hint or known, wanted, where))


def _fill_in(hint: str, wanted: Wanted, where: str) -> str:
    """Return a hint with the path of the file and the wanted kind filled in."""
    path = where if os.path.exists(where) else "FILE"
    root, suffix = os.path.splitext(path)
    paths = {"{file}": path, "{utf8}": f"{root}-utf8{suffix}"}
    for place, text in paths.items():
        hint = hint.replace(place, quote_shell(text))
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

    # The sample is cut out of the text, so that no parser can read it.
    def occurs(key: str) -> bool:
        return f'"{key}"'.encode() in sample

    if occurs("nodes") and (occurs(TVM_OP) or occurs("dltype")):
        return _TVM_GRAPH
    for kind in (*JSON_KINDS[:1], _SYMBOL_FILE, *JSON_KINDS[1:]):
        if all(map(occurs, kind.keys)):
            return kind
    return FileKind("JSON")


def _refuse_packed(sample: bytes, wanted: Wanted, where: str, known: str) -> Fault:
    """Return the fault of a gzip file, named by its content."""
    inner = unpack_gzip_start(sample, SAMPLE)
    kind = recognize(inner) if inner else None
    if kind is _TAR:
        return refuse_kind(_TAR_GZ, wanted, where=where)
    if kind is None:
        start = f"it starts with {describe_start(inner)}" if inner else "it cannot be unpacked"
        return Fault(f"is compressed with gzip, and its content is not {_NAMES[wanted]}: {start}", where=where, hint=known)
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
        return f"unpack it first: `gunzip -k {quote_shell(path)}`"
    root, suffix = os.path.splitext(path)
    return f"unpack it first: `gunzip -c {quote_shell(path)} > {quote_shell(f'{root}-unpacked{suffix}')}`"
