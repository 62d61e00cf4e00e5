"""Recognizing a file takes time in proportion to the sample, whatever it contains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphshare.files.byte_source import SAMPLE
from graphshare.formats.content_tests import is_caffemodel, is_image, is_markup, is_onnx, is_onnx_tensor, is_saved_model
from graphshare.formats.model_names import STDIN, name_of_file
from graphshare.formats.wrong_file import recognize
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
