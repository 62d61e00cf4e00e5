"""Recognizing a file takes time in proportion to the sample, whatever it contains."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphshare.files.byte_source import SAMPLE, HeldBytes
from graphshare.formats.content_tests import (
    begins_with_version,
    is_caffemodel,
    is_image,
    is_markup,
    is_onnx,
    is_onnx_tensor,
    is_paddle_program,
    is_saved_model,
)
from graphshare.formats.model_names import STDIN, name_of_file
from graphshare.formats.wrong_file import (
    SYMBOL_HINT,
    describe_start,
    recognize,
    recognize_json,
    refuse_bytes,
    refuse_json,
    take_sample,
)
from tests.effort import ends


@pytest.mark.parametrize(
    "part",
    [b" ", b"\n", b"<!---->", b"<!-- ", b"<?xml ?>", b"#\n", b"\x08\x01", b"\x12\x00", b"\x0a\x00", b"\x80", b"{", b"[", b'"',
     b"1", b"c.", b"(dp1", b"\0a\0\0", b"PK\x03\x04"],
    ids=repr,
)  # fmt: skip
def test_no_content_takes_long(part: bytes) -> None:
    with ends(60):  # what grows with the square of the sample takes longer
        for prefix in (b"", b"<?xml ?>", b"\x08\x01", b"\xef\xbb\xbf"):
            recognize((prefix + part * (2 * SAMPLE))[: 2 * SAMPLE])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"<html>", True),
        (b"\xef\xbb\xbf <HTML lang='en'>", True),
        (b"<?xml version='1.0'?>\n<!-- a --><!-- b -->\n<html/>", True),
        (b"<htmlx>", False),
        (b"html>", False),
        (b"<!-- <html> ", False),
        (b"<net>", False),
        (b"<html", False),
    ],
)
def test_markup_is_told_by_its_first_element(text: bytes, expected: bool) -> None:
    assert is_markup(b"html")(text) is expected


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (STDIN, ""),
        ("", ""),
        ("models/lenet-symbol.json", "lenet"),
        ("models/lenet-symbol.json.gz", "lenet"),
        ("lenet-0000.params", "lenet-0000"),
        ("net.onnx", "net"),
        ("lenet", "lenet"),
    ],
)
def test_the_name_of_a_model_is_that_of_its_file(path: str, name: str) -> None:
    assert name_of_file(path) == name


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\r", True),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01", True),
        (b"GIF89a\1\0\1\0\0\0", True),
        (b"II*\0\x08\0\0\0\0\0\0\0", True),
        (b"II*\0\0\0\0\0{    ", False),  # a header of safetensors with that length
        (b"BM\x36\0\0\0\0\0\0\0\x36\0", True),
        (b"BM\0\0\0\0\0\0{   ", False),
        (b"RIFF\x24\0\0\0WEBP", True),
        (b"RIFF\x24\0\0\0WAVE", False),
        (b"OggS\x24\0\0\0WEBP", False),
        (b"P6 2 2 255\n\0", True),
        (b"P6\n2 2 255\n\0", True),
        (b"P62 2 255\n\0\0", False),
        (b"P7\nWIDTH 1\n\0", False),
        (b"Q6 2 2 255\n\0", False),
        (b"", False),
    ],
)
def test_images_are_known_by_their_first_bytes(start: bytes, expected: bool) -> None:
    assert is_image(start) is expected


_SERVE = b"\x08\x01\x12\x05serve"


@pytest.mark.parametrize(
    ("is_kind", "message", "expected"),
    [
        (is_onnx, b"\x08\x07\x3a\x02\x0a\x00", True),
        (is_onnx, b"\x08\x40\x3a\x00", True),
        (is_onnx, b"\x08\x41\x3a\x00", False),
        (is_onnx, b"\x08\x00\x3a\x00", False),
        (is_onnx, b"\x08\x01\x3a\x00", True),
        (is_onnx, b"\x10\x07\x3a\x00", False),
        (is_onnx, b"\x0a\x01\x07\x3a\x00", False),
        (is_onnx, b"\x08\x07\x12\x02ab\x42\x02\x10\x0d", True),
        (is_onnx, b"\x08\x07\x12\x00\x28\x01\x32\x01a\x42\x00", True),
        (is_onnx, b"\x08\x07\x12\x02a\x01\x42\x02\x10\x0d", False),
        (is_onnx, b"\x08\x07\x3a\x02\x1a\x00", False),
        (is_onnx, b"\x08\x07\x38\x0a", False),
        (is_onnx, b"\x08\x07\x4a\x01\x0a", False),
        (is_onnx, b"\x08\x07", False),
        (is_onnx, b"\x08\x07" + b"\x28\x01" * 10 + b"\x3a\x00", True),
        (is_onnx, b"\x08\x07" + b"\x28\x01" * 11 + b"\x3a\x00", False),
        (is_onnx, b"", False),
        (is_onnx_tensor, b"\x08\x02\x08\x03\x10\x01\x4a\x01a", True),
        (is_onnx_tensor, b"\x10\x01\x42\x01a", True),
        (is_onnx_tensor, b"\x10\x20\x22\x01a", True),
        (is_onnx_tensor, b"\x10\x21\x22\x01a", False),
        (is_onnx_tensor, b"\x10\x00\x22\x01a", False),
        (is_onnx_tensor, b"\x10\x01\x5a\x01a", True),
        (is_onnx_tensor, b"\x10\x01\x62\x01a", False),
        (is_onnx_tensor, b"\x10\x01\x1a\x01a", False),
        (is_onnx_tensor, b"\x10\x01\x48\x01", False),
        (is_onnx_tensor, b"\x08\x02\x10\x01", False),
        (is_onnx_tensor, b"\x08\x02", False),
        (is_onnx_tensor, b"\x08\x02\x12\x01a\x4a\x01a", False),
        (is_onnx_tensor, b"\x08\x01" * 30 + b"\x10\x01\x4a\x01a", True),
        (is_onnx_tensor, b"\x08\x01" * 31 + b"\x10\x01\x4a\x01a", False),
        (is_saved_model, _SERVE, True),
        (is_saved_model, _SERVE.replace(b"serve", b"serfs"), False),
        (is_saved_model, b"\x0a\x08\x0a\x02ab\x12\x02cd", True),
        (is_saved_model, b"\x0a\x08\x0a\x02ab\x1a\x02cd", False),
        (is_saved_model, b"\x0a\x08\x0a\x02a\x02\x12\x02cd", False),
        (is_saved_model, b"\x12\x08\x0a\x02ab\x12\x02cd", False),
        (is_saved_model, b"", False),
        (is_caffemodel, b"\x0a\x03net\x1a\x01d", True),
        (is_paddle_program, b"\x0a\x08\x08\x00\x10\x00\x1a\x02\x0a\x00", True),
        (is_paddle_program, b"\x0a\x11\x08\x00\x10" + b"\xff" * 9 + b"\x01\x1a\x02\x0a\x00", True),
        (is_paddle_program, b"\x0a\x08\x08\x00\x08\x00\x1a\x02\x0a\x00", False),
        (is_paddle_program, b"", False),
        (begins_with_version, b"\x08\x0a", True),
        (begins_with_version, b"\x08\x41", False),
        (begins_with_version, b"\x08", False),
        (is_caffemodel, b"\x0a\x03net\x12\x01d", True),
        (is_caffemodel, b"\x0a\x03net\xa2\x06\x01d", True),
        (is_caffemodel, b"\x0a\x03net\xaa\x06\x01d", False),
        (is_caffemodel, b"\x0a\x03net\x22\x01d", False),
        (is_caffemodel, b"\x12\x03net\x1a\x01d", False),
        (is_caffemodel, b"\x0a\x03n\x1ft\x1a\x01d", False),
        (is_caffemodel, b"\x0a\x03n\tt\x1a\x01d", True),
        (is_caffemodel, b"\x0a\x03net", False),
        (is_caffemodel, b"\x0a\x00\x1a\x01d", False),
    ],
)
def test_messages_of_protobuf_are_known_by_their_first_fields(
    is_kind: Callable[[bytes], bool], message: bytes, expected: bool
) -> None:
    assert is_kind(message) is expected


_JSON_KINDS = [
    (("root", "nodes", "b64ndarrays"), "a graph of TVM's Relay"),
    (("sources", "entries"), "a graphshare map file"),
    (("version", "rules"), "a graphshare rules file"),
    (("command", "findings"), "a graphshare report"),
    (("arguments", "auxiliary_states", "ops"), "a report of `graphshare inspect`"),
    (("class_name", "config"), "a Keras model (JSON)"),
    (("modelTopology",), "a TensorFlow.js model"),
    (("irVersion", "graph"), "an ONNX model as JSON"),
    (("ir_version", "graph"), "an ONNX model as JSON"),
    (("base_code", "program"), "a Paddle graph"),
    (("metadata", "weight_map"), "an index of .safetensors files"),
    (("model_type",), "a Hugging Face configuration"),
    (("cells", "nbformat"), "a Jupyter notebook"),
    (("inputs", "outputs", "input_type"), "a signature for a model server"),
    (("error",), "an error message from a server (JSON)"),
]


@pytest.mark.parametrize(("keys", "name"), _JSON_KINDS)
def test_a_json_object_is_known_by_its_keys(keys: tuple[str, ...], name: str) -> None:
    value = dict.fromkeys(("other", *keys))
    for text in (json.dumps(value), json.dumps(value, indent=1)):
        kind = recognize(text.encode())
        assert (kind.name if kind is not None else None) == name
    kind = recognize_json(value)
    assert (kind.name if kind is not None else None) == name
    fault = refuse_json(value, where="a")
    assert fault is not None
    assert kind is not None
    assert kind.is_model == name.startswith(("a Keras", "a TensorFlow", "an ONNX"))
    assert fault.message == f"is {name}, " + (
        "which graphshare does not read" if kind.is_model else "not a symbol file"
    )


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"nodes": [{"op": "tvm_op"}], "heads": []}, "a graph of TVM's graph executor"),
        ({"nodes": [], "attrs": {"dltype": []}}, "a graph of TVM's graph executor"),
        ({"nodes": None, "attrs": {"dltype": []}}, ""),
        ({"nodes": [], "heads": []}, ""),
        ({"heads": [], "error": ""}, ""),
        ({"a": 1}, "a JSON object with the key 'a'"),
        ({"a": 1, "b": 2}, "a JSON object with the keys 'a', 'b'"),
        ({}, "an empty JSON object"),
        ({"a" * 30: 1}, f"a JSON object with the key '{'a' * 30}'"),
        ({"a" * 31: 1}, f"a JSON object with the key '{'a' * 27}...'"),
    ],
)
def test_a_json_object_that_is_no_graph_is_named(value: dict[str, Any], name: str) -> None:
    fault = refuse_json(value)
    assert (fault.message if fault is not None else "") == (
        f"is {name}, not a symbol file" if name else ""
    )


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        (b"<error>", "an error message from a storage server (XML)"),
        (b"PK\x03\x04 a/data.pkl", "a PyTorch checkpoint (torch.save)"),
        (b"PK\x03\x04 a.txt", "a zip archive"),
        (b"PK\x05\x06", "a zip archive"),
        (bytes(256) + b"\1ustar", "a tar archive"),
        (b"\x89HDF\r\n\x1a\n layer_names", "a Keras model (HDF5)"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"\x20\0\0\0TFL3", "a TensorFlow Lite model"),
        (b"\x80\x02}", "a Python pickle"),
        (b"\x80\x06}", ""),
        (b"(dp0\n", "a Python pickle"),
        (b"\x05\0\0\0\0\0\0\0{}   ", "a parameter file (.safetensors)"),
        (b"\0\0\0\0\0\x01\0\0{}   ", ""),
        (b"\xff\xff\xff\xff\xff\0\0\0{}   ", "a parameter file (.safetensors)"),
        (bytes(9), "a file of nothing but NUL bytes"),
        (b"\xff\xfe\0\0a\0\0\0", "text in UTF-32"),
        (b"a\0\0\0b\0\0\0c\0\0\0d\0\0\0", "text in UTF-32LE"),
        (b"\0a\0b\0c\0d", "text in UTF-16BE"),
        (b"\xff\xfe{\0", "text in UTF-16"),
        (b"  {\"nodes\": [], \"arg_nodes\": [], \"heads\"", "a symbol file (a graph)"),
        (b'{"nodes": [{"op": "x", "dltype": 1', "a graph of TVM's graph executor"),
        (b'{"x": 1', "JSON"),
        (b"what", ""),
    ],
)  # fmt: skip
def test_a_file_is_known_by_its_content(sample: bytes, name: str) -> None:
    kind = recognize(sample)
    assert (kind.name if kind is not None else "") == name


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"what\nnext", "'what'"),
        (b"what\r\nnext", "'what'"),
        (b"a" * 40, f"'{'a' * 40}'"),
        (b"a" * 41, f"'{'a' * 37}...'"),
        (b"\xff\x00abcdefgh", "ff 00 61 62 63 64 65 66"),
        (b"\nabc", "0a 61 62 63"),
        (b"a\x01", "61 01"),
        (b"a" * 200 + b"\xff", f"'{'a' * 37}...'"),
    ],
)
def test_the_start_of_an_unknown_file_is_shown(data: bytes, text: str) -> None:
    assert describe_start(data) == text
    fault = refuse_bytes(data, "graph", where="a")
    assert (fault.message, fault.hint) == (
        f"is not a symbol file: it starts with {text}, which is not JSON",
        SYMBOL_HINT,
    )
    fault = refuse_bytes(data, "parameters", where="a", known="k")
    assert (fault.message, fault.hint) == (f"is not a parameter file: it starts with {text}", "k")


@pytest.mark.parametrize(
    ("content", "wanted", "message", "hint"),
    [
        (b"%PDF-", "graph", "is a PDF document compressed with gzip, not a symbol file", SYMBOL_HINT),
        (b"what", "graph", "is compressed with gzip, and its content is not a symbol file: it starts with 'what'", SYMBOL_HINT),
        (b"\x93NUMPY", "arrays", "is a NumPy array (.npy) compressed with gzip, and arrays are read in place",
         "unpack it first: `gunzip -k 'a b.gz'`"),
        (b"\x93NUMPY", "graph", "is a NumPy array (.npy) compressed with gzip, not a symbol file",
         "it holds arrays and no graph: give a *-symbol.json"),
        (bytes(257) + b"ustar", "graph", "is a tar archive compressed with gzip, not a symbol file",
         "unpack it with `tar xzf 'a b.gz'`, then give the symbol file in it"),
    ],
)  # fmt: skip
def test_a_packed_file_is_named_by_its_content(
    content: bytes,
    wanted: Any,
    message: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    packed = gzip.compress(content)
    Path("a b.gz").write_bytes(packed)
    fault = refuse_bytes(packed, wanted, where="a b.gz")
    assert (fault.message, fault.hint) == (message, hint)
    cut = refuse_bytes(packed[:5], wanted, where="a b.gz", known="k")
    assert cut.message.endswith(": it cannot be unpacked")


def test_a_packed_file_is_unpacked_by_a_command_that_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    packed = gzip.compress(b"\x93NUMPY")
    Path("a.npy").write_bytes(packed)
    hints = [refuse_bytes(packed, "arrays", where=where).hint for where in ("a.npy", "gone.npy")]
    assert hints == [
        "unpack it first: `gunzip -c a.npy > a-unpacked.npy`",
        "unpack it first with gunzip",
    ]
    for size in (0, 9, SAMPLE, SAMPLE + 1, 3 * SAMPLE):
        data = bytes(i % 251 for i in range(size))
        assert (
            take_sample(HeldBytes("a", data)) == data[:SAMPLE] + data[max(SAMPLE, size - SAMPLE) :]
        )
