"""The kinds of files that are not graphs, each recognized by its content. A new kind is a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from graphshare.formats.content_tests import (
    begins_like_record,
    is_caffemodel,
    is_image,
    is_markup,
    is_onnx,
    is_onnx_tensor,
    is_paddle_program,
    is_saved_model,
)


class FileKind(msgspec.Struct, frozen=True):
    """A kind of file, with its article in ``name``.

    A file is of this kind if it begins with one of ``starts`` (at byte ``at``), contains one of
    ``contains``, and fulfils ``test``; empty ones are not tested. ``keys`` are the keys of a JSON
    object. ``hint`` is the way out, ``for_arrays`` if parameters or arrays are wanted; ``{file}``
    is the path, ``{utf8}`` and ``{onnx}`` are paths beside it (all quoted for a shell),
    ``{wanted}`` is the wanted kind. ``readable`` files have arrays that graphshare reads,
    ``is_model`` marks models in another form.
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
    is_model: bool = False

    def fits(self, sample: bytes) -> bool:
        """Whether a file is of this kind; ``sample`` is its start and its end."""
        return (
            (not self.starts or sample.startswith(self.starts, self.at))
            and (not self.contains or any(text in sample for text in self.contains))
            and (self.test is None or self.test(sample))
        )


def _wide_text(encoding: str, pattern: bytes) -> FileKind:
    """``pattern`` matches a byte order mark, or ASCII with NULs."""
    start = re.compile(pattern)
    convert = f"`iconv -f {encoding} -t UTF-8 {{file}} > {{utf8}}`"
    return FileKind(
        f"text in {encoding}",
        f"write it as UTF-8: {convert}"
        + ("; PowerShell's `>` writes UTF-16: use -o there" if "16" in encoding else ""),
        "it is text; arrays are binary",
        test=lambda sample: start.match(sample) is not None,
    )


_PAGE = is_markup(rb"!doctype html", b"html", b"head", b"body")
# Protocol 0 is text: a dict, a list, or the class of an object.
_TEXT_PICKLE = re.compile(rb"\((?:dp|lp)\d+\n|c[A-Za-z_.]+\n[A-Za-z_]+\n")
_ONNX_TEXT = re.compile(
    rb"\s*<\s*(?:ir_version|opset_import|producer_name|producer_version|domain|model_version)\s*:"
)
_TEXTPROTO = re.compile(
    rb"(?:\s|#[^\n]*\n)*(?:ir_version\s*:\s*\d|opset_import\s*:?\s*\{|producer_name\s*:\s*\")"
)
_PROTOTXT = re.compile(rb"(?:\s|#[^\n]*\n)*(?:name\s*:\s*\"|layers?\s*\{|input\s*:\s*\")")

_PAGE_HINT = (
    "it is a page about the file, or an error page: download the file itself (on GitHub: Raw)"
)
_BESIDE = "the graph is the *-symbol.json beside it"
_DOWNLOAD_FAILED = "the download or the copy failed: fetch it again"
_UNZIP = "unpack it with `unzip {file}`, then give the {wanted} in it"
_OTHER_FRAMEWORK = (
    "graphshare reads MXNet models (a *-symbol.json and its parameter file), ONNX models and "
    "Paddle 3's JSON"
)
_TORCH_EXPORT = "convert it in PyTorch with torch.onnx.export"
_KERAS_EXPORT = (
    'convert it in Keras: keras.models.load_model(FILE).export("model.onnx", format="onnx")'
)
_PADDLE_CONVERT = (
    "convert it with paddle2onnx: --model_dir, --model_filename, --params_filename, --save_file"
)
_TF_CONVERT = "convert it: `python -m tf2onnx.convert"
_WITH_PARAMS = (
    "it holds arrays and no graph: give the *-symbol.json as GRAPH, and this file with `params`"
)
_NO_ARRAYS = "it holds pixels, not parameters"
_SAVE_ARRAYS = "save its arrays with numpy.savez where it comes from"
_NOT_UNPICKLED = "a pickle can run any code, so it is never loaded: "

TAR = FileKind(
    "a tar archive",
    "unpack it with `tar xf {file}`, then give the {wanted} in it",
    starts=(b"ustar",),
    at=257,
)
TAR_GZ = FileKind(
    "a tar archive compressed with gzip",
    "unpack it with `tar xzf {file}`, then give the {wanted} in it",
)


def _convert_onnx(form: str) -> str:
    load = f'onnx.save(onnx.load(sys.argv[1], format="{form}"), sys.argv[2])'
    return f"convert it: `python -c 'import onnx, sys; {load}' {{file}} {{onnx}}`"


def _model(
    name: str, hint: str = _OTHER_FRAMEWORK, for_arrays: str = _SAVE_ARRAYS, **rules: Any
) -> FileKind:
    """Return the kind of a model in another form; most can save their arrays at their origin."""
    return FileKind(name, hint, for_arrays, is_model=True, **rules)


#: The first kind that fits counts: special kinds come before general ones.
FILE_KINDS = (
    FileKind(
        "a Git LFS pointer",
        "run `git lfs pull` in its repository to fetch the file itself",
        starts=(
            b"version https://git-lfs.github.com/spec/",
            b"version https://hawser.github.com/spec/",
        ),
    ),
    FileKind(
        "a DVC pointer",
        "run `dvc pull {file}` to fetch the file itself",
        starts=(b"outs:\n- md5:", b"md5: "),
    ),
    FileKind(
        "a git-annex pointer",
        "run `git annex get {file}` to fetch the file itself",
        starts=(b"/annex/objects/",),
    ),
    FileKind(
        "an error message from a storage server (XML)",
        "the download failed: the file says why; fetch it again",
        test=is_markup(b"error"),
    ),
    _model("an OpenVINO model (XML)", test=is_markup(b"net")),
    FileKind(
        "a web page (HTML)",
        _PAGE_HINT,
        test=_PAGE,
    ),
    FileKind(
        "XML", test=lambda sample: re.match(rb"\s*(?:\xef\xbb\xbf)?<\?xml\s", sample) is not None
    ),
    FileKind("a PDF document", starts=(b"%PDF-",)),
    # Archives
    _model(
        "a PyTorch model (TorchScript)",
        f"{_TORCH_EXPORT}(torch.jit.load(FILE), inputs, OUT)",
        starts=(b"PK\x03\x04",),
        contains=(b"/constants.pkl",),
    ),
    _model(
        "a PyTorch model (.pt2)",
        f"{_TORCH_EXPORT}(torch.export.load(FILE), f=OUT)",
        starts=(b"PK\x03\x04",),
        contains=(b"serialized_exported_program.json", b"archive_format", b"models/model.json"),
    ),
    _model(
        "a PyTorch checkpoint (torch.save)",
        f"it holds weights and no graph: {_TORCH_EXPORT}, from the module that they belong to",
        _NOT_UNPICKLED + "in PyTorch, save the state dict with safetensors.torch.save_file",
        starts=(b"PK\x03\x04",),
        contains=(b"/data.pkl",),
    ),
    _model(
        "a Keras model (.keras)",
        _KERAS_EXPORT,
        starts=(b"PK\x03\x04",),
        contains=(b"model.weights.h5",),
    ),
    FileKind(
        "an archive of a model server (.mar)",
        _UNZIP,
        starts=(b"PK\x03\x04",),
        contains=(b"MAR-INF/", b"-symbol.json"),
    ),
    FileKind(
        "a NumPy archive (.npz)",
        _WITH_PARAMS,
        starts=(b"PK\x03\x04",),
        contains=(b".npy",),
        readable=True,
    ),
    FileKind("a zip archive", _UNZIP, starts=(b"PK\x03\x04", b"PK\x05\x06")),
    TAR,
    FileKind(
        "a 7-Zip archive",
        "unpack it with `7z x {file}`, then give the {wanted} in it",
        starts=(b"7z\xbc\xaf\x27\x1c",),
    ),
    FileKind(
        "a RAR archive",
        "unpack it with `unrar x {file}`, then give the {wanted} in it",
        starts=(b"Rar!\x1a\x07",),
    ),
    FileKind("compressed with bzip2", "unpack it first: `bunzip2 -k {file}`", starts=(b"BZh",)),
    FileKind("compressed with xz", "unpack it first: `xz -dk {file}`", starts=(b"\xfd7zXZ\0",)),
    FileKind(
        "compressed with Zstandard",
        "unpack it first: `zstd -d {file}`",
        starts=(b"\x28\xb5\x2f\xfd",),
    ),
    FileKind(
        "compressed with LZ4", "unpack it first: `lz4 -d {file}`", starts=(b"\x04\x22\x4d\x18",)
    ),
    # Arrays
    FileKind(
        "a parameter file (.params)", _WITH_PARAMS, starts=(b"\x12\x01\0\0\0\0\0\0",), readable=True
    ),
    FileKind(
        "a parameter file (.pdiparams)",
        "it holds arrays and no names: give the graph beside it, a *.json that begins with its base_code",
        test=begins_like_record,
        readable=True,
    ),
    FileKind(
        "a parameter file (.safetensors)",
        _WITH_PARAMS,
        test=lambda sample: (
            sample[8:9] == b"{" and 0 < int.from_bytes(sample[:8], "little") < 1 << 40
        ),
        readable=True,
    ),
    FileKind(
        "a NumPy array (.npy)",
        "`run` and `verify` take it as `feeds={NAME: {file}}`: the values of a variable",
        "its array has no name: numpy.savez('x.npz', name=array) saves arrays with names",
        starts=(b"\x93NUMPY",),
        readable=True,
    ),
    _model(
        "a Keras model (HDF5)",
        _KERAS_EXPORT,
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
    FileKind(
        "a RecordIO file (.rec)",
        "it holds training data, not a model",
        starts=(b"\x0a\x23\xd7\xce",),
    ),
    # Models of other frameworks
    _model(
        "a PyTorch checkpoint (torch.save)",
        f"it holds weights and no graph: {_TORCH_EXPORT}, from the module that they belong to",
        _NOT_UNPICKLED + "in PyTorch, save the state dict with safetensors.torch.save_file",
        # The pickled magic number 0x1950a86a20f9469cfc6c, before the zip archives of PyTorch 1.6.
        starts=(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",),
    ),
    FileKind(
        "a Python pickle",
        _NOT_UNPICKLED
        + "give a *-symbol.json (a .states file of MXNet holds the state of an optimizer)",
        _NOT_UNPICKLED + "save the arrays with numpy.savez where it comes from",
        test=lambda sample: (
            re.match(rb"\x80[\x02-\x05]", sample) is not None
            or _TEXT_PICKLE.match(sample) is not None
        ),
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
    _model(
        "an ONNX model as text",
        _convert_onnx("onnxtxt"),
        "",
        test=lambda sample: _ONNX_TEXT.match(sample) is not None,
    ),
    _model(
        "an ONNX model as text of protobuf",
        _convert_onnx("textproto"),
        "",
        test=lambda sample: _TEXTPROTO.match(sample) is not None,
    ),
    _model(
        "a model of onnxruntime (.ort)",
        "give the ONNX model that it was made of; onnxruntime writes one to optimized_model_filepath where"
        ' session.save_model_format is "ONNX"',
        starts=(b"ORTM",),
        at=4,
    ),
    _model(
        "a Paddle model (.pdmodel)",
        f"{_PADDLE_CONVERT}; or save it as JSON with Paddle 3 (docs/paddle.md has the lines)",
        test=is_paddle_program,
    ),
    _model(
        "a TensorFlow Lite model",
        f"{_TF_CONVERT} --tflite {{file}} --output {{onnx}}`",
        starts=(b"TFL3",),
        at=4,
    ),
    _model(
        "a TensorFlow model",
        f"{_TF_CONVERT}` with --saved-model FOLDER, or --graphdef FILE for a frozen graph",
        test=is_saved_model,
    ),
    _model("a Caffe model (.caffemodel)", test=is_caffemodel),
    _model(
        "a Caffe network (.prototxt)",
        for_arrays="",
        test=lambda sample: _PROTOTXT.match(sample) is not None,
    ),
    _model("an ncnn network (.param)", for_arrays="", starts=(b"7767517\n", b"7767517\r")),
    _model(
        "a GGUF file",
        "it holds weights for llama.cpp; convert the model that it was made of: `optimum-cli "
        "export onnx --model MODEL FOLDER`",
        starts=(b"GGUF",),
    ),
    FileKind(
        "a compiled program or library", starts=(b"\x7fELF", b"\xcf\xfa\xed\xfe", b"MZ\x90\0")
    ),
    FileKind(
        "an image",
        "`run` and `verify` take it as `feeds={NAME: {file}}`",
        _NO_ARRAYS,
        test=is_image,
    ),
    # Texts
    FileKind(
        "a file of nothing but NUL bytes", _DOWNLOAD_FAILED, test=lambda sample: not any(sample)
    ),
    # The byte order mark of UTF-32LE begins with the mark of UTF-16LE.
    _wide_text("UTF-32", rb"\xff\xfe\0\0|\0\0\xfe\xff"),
    _wide_text("UTF-32LE", rb"(?:[\t\n\r -~]\0\0\0){4}"),
    _wide_text("UTF-32BE", rb"(?:\0\0\0[\t\n\r -~]){4}"),
    _wide_text("UTF-16", rb"\xff\xfe|\xfe\xff"),
    _wide_text("UTF-16LE", rb"(?:[\t\n\r -~]\0){4}"),
    _wide_text("UTF-16BE", rb"(?:\0[\t\n\r -~]){4}"),
    FileKind(
        "a text file with a URL",
        "fetch what the URL names: `curl -LO URL`",
        starts=(b"https://", b"http://"),
    ),
)

#: Kinds of JSON objects, by keys that all of them have.
JSON_KINDS = (
    FileKind("a graph of TVM's Relay", _OTHER_FRAMEWORK, keys=("root", "nodes", "b64ndarrays")),
    FileKind("a graphshare map file", "give the symbol file itself", keys=("sources", "entries")),
    FileKind(
        "a graphshare rules file",
        "duplicate, share and rename take it with `rules`",
        keys=("version", "rules"),
    ),
    FileKind("a graphshare report", "give the symbol file itself", keys=("command", "findings")),
    FileKind(
        "a report of `graphshare inspect`",
        "give the symbol file itself",
        keys=("arguments", "auxiliary_states", "ops"),
    ),
    _model("a Keras model (JSON)", _KERAS_EXPORT, "", keys=("class_name", "config")),
    _model(
        "a TensorFlow.js model",
        f"{_TF_CONVERT} --tfjs {{file}} --output {{onnx}}`",
        "",
        keys=("modelTopology",),
    ),
    _model("an ONNX model as JSON", _convert_onnx("json"), "", keys=("irVersion", "graph")),
    _model("an ONNX model as JSON", _convert_onnx("json"), "", keys=("ir_version", "graph")),
    FileKind(
        "a Paddle graph",
        "`paddle.jit.save` writes one that is read: it begins with its base_code",
        "parameters are in a file of their own, usually *.pdiparams",
        keys=("base_code", "program"),
    ),
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
    FileKind(
        "an error message from a server (JSON)",
        _DOWNLOAD_FAILED,
        keys=("message", "documentation_url"),
    ),
    FileKind("an error message from a server (JSON)", _DOWNLOAD_FAILED, keys=("error",)),
)

TVM_GRAPH = FileKind(
    "a graph of TVM's graph executor",
    "TVM has compiled it: give the symbol file of MXNet that it was compiled from",
    "TVM saves the parameters of such a graph in a file of their own",
)
SYMBOL_FILE = FileKind(
    "a symbol file (a graph)",
    for_arrays="parameters are in a file of their own, usually *-0000.params",
    keys=("nodes", "arg_nodes", "heads"),
)
