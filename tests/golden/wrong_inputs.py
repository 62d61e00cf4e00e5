"""Wrong inputs of every kind, made here, and what the commands say of them: ``fixtures/wrong-inputs.txt``.

``python -m tests.golden.wrong_inputs`` writes that file anew; read each message before it is committed.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import struct
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.cli import main
from tests import paddle_programs
from tests import params_bytes as build
from tests.processes import ROOT
from tests.symbols import document, mxnet_text, operator, siamese, variable

GOLDEN = ROOT / "fixtures" / "wrong-inputs.txt"

GRAPH = mxnet_text(siamese()).encode()
PARAMS = build.container([build.dense((1, 1, 3, 3))], ["arg:conv_weight"])


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def tar(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def npy(array: Any, *, allow_pickle: bool = False) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=allow_pickle)
    return out.getvalue()


def field(number: int, content: bytes | int) -> bytes:
    """A field of a protobuf message; contents shorter than 128 bytes."""
    tag = number << 3 | (0 if isinstance(content, int) else 2)
    head = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
    return head + (
        bytes([content]) if isinstance(content, int) else bytes([len(content)]) + content
    )


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def tvm_graph() -> bytes:
    nodes = [
        variable("data"),
        variable("p0"),
        operator(
            "tvm_op",
            "fused_conv2d",
            [0, 1],
            attrs={"func_name": "fused_conv2d", "flatten_data": "0", "num_inputs": "2"},
        ),
    ]
    found = document(nodes, [2], version=None)
    shapes = [[1, 3, 8, 8], [4, 3, 3, 3], [1, 4, 6, 6]]
    found["attrs"] = {
        "shape": ["list_shape", shapes],
        "dltype": ["list_str", ["float32"] * 3],
        "storage_id": ["list_int", [0, 1, 2]],
    }
    return as_json(found)


def nnvm_graph() -> bytes:
    """A graph of NNVM's compiler before its operators became ``tvm_op``."""
    found = document([variable("x"), operator("relu", "r", [0])], [1], version=None)
    found["attrs"] = {
        "shape": ["list_shape", [[2], [2]]],
        "storage_id": ["list_int", [0, 1]],
        "dltype": ["list_str", ["float32"] * 2],
    }
    return as_json(found)


def bomb() -> bytes:
    """A gzip file of a graph with 300 MB of blanks."""
    squeeze = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = [squeeze.compress(b'{"nodes": [')]
    parts += [squeeze.compress(b" " * (1 << 20)) for _ in range(300)]
    return b"".join([*parts, squeeze.flush()])


ONNX = (
    field(1, 8)
    + field(2, b"pytorch")
    + field(3, b"2.1.0")
    + field(7, field(1, field(4, b"Conv")))
    + field(8, field(2, 17))
)
ONNX_TEXT = b'<\n   ir_version: 8,\n   opset_import: ["" : 13]\n>\ng (float[4] x) => (float[4] y) {\n   y = Relu (x)\n}\n'
TENSOR = field(1, 1) + field(1, 3) + field(2, 1) + field(9, bytes(12))
TF_GRAPH = field(1, field(1, b"input") + field(2, b"Placeholder")) + field(
    1, field(1, b"conv") + field(2, b"Conv2D")
)
TORCH = build.archive(
    [("model/data.pkl", b"\x80\x02}q\x00."), ("model/data/0", bytes(16)), ("model/version", b"3\n")]
)
TORCH_OLD = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(40)
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
PAGE = b'\n<!DOCTYPE html>\n<html lang="en"><head><title>resnet at master</title></head><body></body></html>\n'
DENIED = b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>'
PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + bytes(17)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(20)

INSPECT = "inspect {file}"
LIST = "params list {file}"
PARAMETERS = "inspect net --params {file}"
FEED = "run net --feed data={file}"
DUPLICATE = "duplicate {file} --prefix b- -o out.json"

#: What is given, the file's name, and its content; None for a file that does not exist.
INPUTS: list[tuple[str, str, bytes | Callable[[], bytes] | None]] = [
    # A graph is wanted: files that stand for others
    (INSPECT, "lfs-symbol.json", LFS),
    (INSPECT, "lfs-old-symbol.json", LFS.replace(b"git-lfs", b"hawser")),
    (INSPECT, "dvc-symbol.json", b"outs:\n- md5: d41d8cd98f00b204e9800998ecf8427e\n  path: net-symbol.json\n"),
    (INSPECT, "annex-symbol.json", b"/annex/objects/MD5E-s10--d41d8cd98f00b204e9800998ecf8427e.json\n"),
    (INSPECT, "page-symbol.json", PAGE),
    (INSPECT, "denied-symbol.json", DENIED),
    (INSPECT, "notfound-symbol.json", as_json({"message": "Not Found", "documentation_url": "https://docs.github.com/rest"})),
    (INSPECT, "link-symbol.json", b"https://example.org/net-symbol.json\n"),
    (INSPECT, "https://example.org/net-symbol.json", None),
    (INSPECT, "s3://models/net-symbol.json", None),
    (INSPECT, "file:///nowhere/net-symbol.json", None),
    # A graph is wanted: parameters
    (INSPECT, "net-0000.params", None),
    (INSPECT, "net-0001.params", None),
    (INSPECT, "something", None),
    (INSPECT, "folder", None),
    (DUPLICATE, "folder-g", None),
    (INSPECT, "other-0000.params", PARAMS),
    (INSPECT, "weights.npz", build.archive([("w.npy", npy(np.zeros(2, "float32")))])),
    (INSPECT, "weights.safetensors", build.safetensors({})),
    (INSPECT, "array.npy", npy(np.zeros(2, "float32"))),
    # A graph is wanted: packed files
    (INSPECT, "model.mar", build.archive([("MAR-INF/MANIFEST.json", b"{}"), ("net-symbol.json", GRAPH)])),
    (INSPECT, "model.model", build.archive([("signature.json", b"{}"), ("net-symbol.json", GRAPH)])),
    (INSPECT, "source.zip", build.archive([("readme.txt", b"hello")])),
    (INSPECT, "model.tar", tar(("net-symbol.json", GRAPH), ("net-0000.params", PARAMS))),
    (INSPECT, "model.tar.gz", packed(tar(("net-symbol.json", GRAPH), ("net-0000.params", PARAMS)))),
    (INSPECT, "my model.tar.gz", packed(tar(("net-symbol.json", GRAPH)))),
    (INSPECT, "net-0000.params.gz", packed(PARAMS)),
    (INSPECT, "cut-symbol.json.gz", packed(GRAPH)[:-20]),
    (INSPECT, "damaged-symbol.json.gz", packed(GRAPH)[:-8] + bytes(8)),
    (INSPECT, "bomb-symbol.json.gz", bomb),  # made only where it is written
    (INSPECT, "text.gz", packed(b"\0\1\2\3 nothing known")),
    (INSPECT, "net-symbol.json.bz2", b"BZh91AY&SY" + bytes(20)),
    (INSPECT, "net-symbol.json.xz", b"\xfd7zXZ\0" + bytes(20)),
    (INSPECT, "net-symbol.json.zst", b"\x28\xb5\x2f\xfd" + bytes(20)),
    (INSPECT, "net-symbol.json.lz4", b"\x04\x22\x4d\x18" + bytes(20)),
    (INSPECT, "model.7z", b"7z\xbc\xaf\x27\x1c" + bytes(20)),
    (INSPECT, "model.rar", b"Rar!\x1a\x07" + bytes(20)),
    # A graph is wanted: models of other frameworks
    (INSPECT, "model.onnx", ONNX[:-2]),
    (INSPECT, "domain.onnx", field(1, 3) + field(2, b"onnx-caffe2") + field(3, b"") + field(4, b"") + field(7, field(1, b""))),
    (INSPECT, "input_0.pb", TENSOR),
    (DUPLICATE, "tvm.json", tvm_graph()),
    (DUPLICATE, "nnvm.json", nnvm_graph()),
    (INSPECT, "relay.json", as_json({"root": 1, "nodes": [{"type_key": ""}], "b64ndarrays": [], "attrs": {}})),
    (INSPECT, "model.pt", TORCH),
    (INSPECT, "script.pt", build.archive([("m/data.pkl", b"\x80\x02."), ("m/constants.pkl", b"\x80\x02.")])),
    (INSPECT, "old.pth", TORCH_OLD),
    (INSPECT, "net-0000.states", pickle.dumps({0: None}, 2)),
    (INSPECT, "model.h5", HDF5 + b"model_weights keras_version"),
    (INSPECT, "data.h5", HDF5),
    (INSPECT, "model.keras", build.archive([("metadata.json", b"{}"), ("config.json", b"{}"), ("model.weights.h5", HDF5)])),
    (INSPECT, "keras.json", as_json({"class_name": "Functional", "config": {}, "keras_version": "2.4.0"})),
    (INSPECT, "tfjs.json", as_json({"modelTopology": {}, "weightsManifest": []})),
    (INSPECT, "frozen.pb", TF_GRAPH),
    (INSPECT, "saved_model.pb", field(1, 1) + field(2, field(1, field(4, b"serve")))),
    (INSPECT, "model.tflite", b"\x1c\0\0\0TFL3" + bytes(20)),
    (INSPECT, "net.caffemodel", field(1, b"LeNet") + field(100, field(1, b"data"))),
    (INSPECT, "net.prototxt", b'# LeNet\nname: "LeNet"\nlayer {\n  name: "data"\n}\n'),
    (INSPECT, "net.param", b"7767517\n75 83\nInput data 0 1 data\n"),
    (INSPECT, "model.xml", b'<?xml version="1.0"?>\n<net name="net" version="10"><layers/></net>\n'),
    (INSPECT, "model.gguf", b"GGUF" + bytes(20)),
    (INSPECT, "onnx.json", as_json({"irVersion": "8", "graph": {}})),
    (INSPECT, "onnx-names.json", as_json({"ir_version": "8", "graph": {}})),
    (INSPECT, "model.onnxtxt", ONNX_TEXT),
    (INSPECT, "text of a model.onnx", ONNX_TEXT),
    (INSPECT, "model.textproto", b'# proto-file: onnx.proto\nir_version: 8\ngraph {\n  node {\n    input: "x"\n'),
    (INSPECT, "model.ort", b"\x18\0\0\0ORTM" + bytes(20)),
    (INSPECT, "net.pdmodel", field(1, field(1, 0) + field(2, 0) + field(3, field(1, b"feed")))),
    (INSPECT, "inference.json", as_json({"base_code": {"magic": "pir", "version": 1}, "program": {}})),
    (INSPECT, "lone.pdiparams", paddle_programs.record((2, 3))),
    (LIST, "p-inference.json", as_json({"base_code": {"magic": "pir", "version": 1}, "program": {}})),
    (INSPECT, "model.pt2", build.archive([("serialized_exported_program.json", b"{}"), ("serialized_constants.pt", TORCH)])),
    (INSPECT, "new.pt2", build.archive([("new/archive_format", b"pt2"), ("new/models/model.json", b"{}")])),
    (INSPECT, "garbage.onnx", bytes(range(128, 160))),
    (INSPECT, "note.onnx", b"hello world\n"),
    (INSPECT, "page.onnx", PAGE),
    (INSPECT, "empty.onnx", b""),
    (INSPECT, "zipped.onnx", build.archive([("model.onnx", ONNX)])),
    (INSPECT, "garbage.onnx.gz", packed(bytes(range(128, 160)))),
    # A graph is wanted: other JSON
    (INSPECT, "config.json", as_json({"architectures": ["BertModel"], "hidden_size": 768})),
    (INSPECT, "config2.json", as_json({"model_type": "bert", "hidden_size": 768})),
    (INSPECT, "weights.safetensors.index.json", as_json({"metadata": {}, "weight_map": {}})),
    (INSPECT, "notebook.ipynb", as_json({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 2})),
    (INSPECT, "signature.json", as_json({"inputs": [], "input_type": "image/jpeg", "outputs": [], "output_type": "x"})),
    (INSPECT, "MANIFEST.json", as_json({"Engine": {"MXNet": 0.12}, "Model": {}, "Version": 0.2})),
    (INSPECT, "manifest2.json", as_json({"runtime": "python", "model": {"modelName": "net"}})),
    (INSPECT, "error.json", as_json({"error": {"code": 404}})),
    (INSPECT, "rules.json", as_json({"version": 1, "rules": []})),
    (INSPECT, "net.map", as_json({"version": 1, "sources": [], "entries": []})),
    (INSPECT, "report.json", as_json({"version": 1, "command": "check", "findings": []})),
    (INSPECT, "list.json", as_json({"arguments": [], "auxiliary_states": [], "ops": {}})),
    (INSPECT, "settings.json", as_json({"batch_size": 32, "lr": 0.1, "epochs": 10, "momentum": 0.9, "wd": 0})),
    (INSPECT, "empty-object.json", b"{}"),
    (INSPECT, "array.json", b"[1, 2]"),
    (INSPECT, "nodes-only.json", as_json({"nodes": []})),
    (INSPECT, "python.json", b"{'nodes': []}"),
    (INSPECT, "cut.json", GRAPH[:200]),
    # A graph is wanted: other files
    (INSPECT, "utf16-symbol.json", GRAPH.decode().encode("utf-16")),
    (INSPECT, "utf16le-symbol.json", GRAPH.decode().encode("utf-16-le")),
    (INSPECT, "utf16be-symbol.json", GRAPH.decode().encode("utf-16-be")),
    (INSPECT, "utf32le-symbol.json", GRAPH.decode().encode("utf-32-le")),
    (INSPECT, "utf32be-symbol.json", GRAPH.decode().encode("utf-32-be")),
    (INSPECT, "utf32-symbol.json", GRAPH.decode().encode("utf-32")),
    (INSPECT, "bom-symbol.json", b"\xef\xbb\xbf" + GRAPH),
    (INSPECT, "empty-symbol.json", b""),
    (INSPECT, "zeros-symbol.json", bytes(5000)),
    (INSPECT, "synset.txt", b"n01440764 tench, Tinca tinca\nn01443537 goldfish\n"),
    (INSPECT, "train.rec", b"\x0a\x23\xd7\xce" + bytes(20)),
    (INSPECT, "cat.jpg", JPEG),
    (INSPECT, "cat.png", PNG),
    (INSPECT, "cat.gif", b"GIF89a" + bytes(20)),
    (INSPECT, "cat.webp", b"RIFF\x10\0\0\0WEBPVP8 " + bytes(20)),
    (INSPECT, "paper.pdf", b"%PDF-1.5\n"),
    (INSPECT, "net.xml", b'<?xml version="1.0"?>\n<project/>'),
    (INSPECT, "net.so", b"\x7fELF" + bytes(20)),
    (INSPECT, "random.bin", bytes(range(128, 160))),
    # Parameters are wanted
    (LIST, "net-symbol.json", None),
    (PARAMETERS, "plain-symbol.json", GRAPH),
    (LIST, "gz-symbol.json.gz", packed(GRAPH)),
    (LIST, "tvm-graph.json", tvm_graph()),
    (LIST, "settings-p.json", as_json({"lr": 0.1})),
    (LIST, "index.json", as_json({"metadata": {}, "weight_map": {}})),
    (LIST, "packed-0000.params.gz", packed(PARAMS)),
    (PARAMETERS, "packed.params", packed(PARAMS)),
    (LIST, "packed.npz.gz", packed(build.archive([("w.npy", npy(np.zeros(2, "float32")))]))),
    (LIST, "lfs-0000.params", LFS),
    (LIST, "page-0000.params", PAGE),
    (LIST, "denied-0000.params", DENIED),
    (LIST, "p-model.mar", build.archive([("MAR-INF/MANIFEST.json", b"{}"), ("net-symbol.json", GRAPH)])),
    (LIST, "p-model.tar.gz", packed(tar(("net-0000.params", PARAMS)))),
    (LIST, "p-model.onnx", ONNX[:-2]),
    (LIST, "p-model.pt", TORCH),
    (LIST, "p-old.pth", TORCH_OLD),
    (LIST, "p-old.pth.gz", packed(TORCH_OLD)),
    (LIST, "p-model.h5", HDF5 + b"model_weights keras_version"),
    (LIST, "p-data.h5", HDF5),
    (LIST, "p-weights.pkl", pickle.dumps({"w": [1.0]}, 4)),
    (LIST, "p-weights0.pkl", pickle.dumps({"w": [1.0]}, 0)),
    (LIST, "p-tvm.params", b"\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7" + bytes(20)),
    (LIST, "p-frozen.pb", TF_GRAPH),
    (LIST, "p-cat.jpg", JPEG),
    (LIST, "p-cat.png", PNG),
    (LIST, "p-array.npy", npy(np.zeros(2, "float32"))),
    (LIST, "p-objects.npz", build.archive([("w.npy", npy(np.array([{}], object), allow_pickle=True))])),
    (LIST, "p-empty.params", b""),
    (LIST, "p-cut.params", PARAMS[:60]),
    (LIST, "p-start.params", PARAMS[:5]),
    (LIST, "p-zeros.params", bytes(5000)),
    (LIST, "p-text.txt", b"conv_weight 0.1 0.2\n"),
    (LIST, "p-random.bin", bytes(range(128, 160))),
    (LIST, "https://example.org/net-0000.params", None),
    (LIST, "folder-p", None),
    # Values are wanted
    (FEED, "folder-f", None),
    (FEED, "f-net-symbol.json", GRAPH),
    (FEED, "f-page.jpg", PAGE),
    (FEED, "f-lfs.png", LFS),
    (FEED, "f-text.png", b"hello"),
    (FEED, "f-cut.png", PNG),
    (FEED, "f-missing.jpg", None),
    (FEED, "f-objects.npy", npy(np.array([{}], object), allow_pickle=True)),
    (FEED, "f-text.npy", npy(np.array(["a", "b"]))),
    (FEED, "f-cut.npy", npy(np.zeros(100, "float32"))[:200]),
    (FEED, "f-array.npy.gz", packed(npy(np.zeros(2, "float32")))),
    (FEED, "f-values.csv", b"1.0,2.0,3.0\n"),
    (FEED, "f-values.json", b"[1.0, 2.0]"),
    (FEED, "f-values.pkl", pickle.dumps([1.0], 4)),
    (FEED, "f-values.h5", HDF5),
    (FEED, "f-tensor.pt", TORCH),
    (FEED, "f-lfs.npy", LFS),
    (FEED, "f-page.npy", PAGE),
    (FEED, "f-onnx.pb", ONNX),
    (FEED, "f-input_0.pb", TENSOR),
    (FEED, "https://example.org/data.npy", None),
    (FEED, "f-missing.npy", None),
]  # fmt: skip


def make_files(folder: Path) -> None:
    """Write the inputs, and the checkpoint ``net``, into ``folder``."""
    (folder / "net-symbol.json").write_bytes(GRAPH)
    (folder / "net-0000.params").write_bytes(PARAMS)
    for name in ("folder", "folder-g", "folder-p", "folder-f"):
        (folder / name).mkdir()
    for _, name, content in INPUTS:
        if content is not None:
            (folder / name).write_bytes(content() if callable(content) else content)


def transcribe(run: Callable[[list[str]], tuple[int, str]]) -> str:
    """Return every command with what it says; ``run`` gives exit code and messages of one, in the folder of the inputs.

    URLs are refused as without the extra ``remote``: nothing is asked of any server.
    """
    # Of this one name: others that are imported meanwhile stay
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fsspec", None)
        return _transcribe(run)


def _transcribe(run: Callable[[list[str]], tuple[int, str]]) -> str:
    lines = []
    for command, name, _ in INPUTS:
        words = [word.replace("{file}", name) for word in command.split()]
        code, said = run(words)
        shown = " ".join(f"'{word}'" if " " in word else word for word in words)
        lines.append(f"$ graphshare {shown}\n{said}" + (f"exit code {code}\n" if code != 2 else ""))
    return "\n".join(lines)


def _run(words: list[str]) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = main.run(words)
    return code, said.getvalue()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        make_files(Path(name))
        os.chdir(name)
        text = transcribe(_run)
    GOLDEN.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
