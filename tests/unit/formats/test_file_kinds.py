"""Recognizing a file takes time in proportion to the sample, whatever it contains."""

from __future__ import annotations

import pytest

from graphshare.files.byte_source import SAMPLE
from graphshare.formats.content_tests import is_image, is_markup
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
