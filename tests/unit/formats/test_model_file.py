"""Open files of models: what is read of a file, a stream, a URL and a packed file, and how their
kinds are recognized.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphshare.errors import InputError, UsageError
from graphshare.files.byte_source import SAMPLE, HeldBytes
from graphshare.files.paths import STDIN
from graphshare.formats import model_file
from graphshare.formats.model_file import (
    HeldFile,
    ModelFile,
    _LocalFile,
    _RemoteFile,
    _Stream,
    open_model_file,
)
from graphshare.formats.model_format import recognize_format

SYMBOL = b'{"nodes": [], "arg_nodes": [], "heads": []}'


def open_as(kind: str, content: bytes) -> ModelFile:
    if kind == "stream":
        return _Stream("a", io.BytesIO(content))
    if kind == "url":
        return _RemoteFile("a", HeldBytes("a", content))
    if kind == "held":
        return HeldFile("a", content)
    file = io.BytesIO(b"read before" + content)
    file.seek(11)
    return _LocalFile("a", file)


@pytest.mark.parametrize(
    "size", [0, 9, SAMPLE, SAMPLE + 1, 2 * SAMPLE - 1, 2 * SAMPLE, 2 * SAMPLE + 9]
)
@pytest.mark.parametrize("kind", ["local", "stream", "url", "held"])
def test_the_start_of_a_file_and_its_end_are_a_sample(kind: str, size: int) -> None:
    content = (bytes(range(251)) * (size // 251 + 1))[:size]
    file = open_as(kind, content)
    assert file.start == content[:SAMPLE]
    rest = content[max(SAMPLE, size - SAMPLE) :] if kind in ("local", "url") else b""
    assert file.sample() == content[:SAMPLE] + rest
    if kind != "stream" or size > 0:
        assert file.read() == content
    assert file.data == content


def test_of_a_local_file_no_more_is_read_than_may_be_unpacked() -> None:
    content = bytes(2 * SAMPLE)
    assert [len(open_as("local", content)._read(most)) for most in (None, 4)] == [len(content), 4]


@pytest.mark.parametrize("kind", ["local", "stream", "url"])
def test_a_packed_file_is_unpacked_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = SYMBOL + b" " * 300_000
    packed = open_as(kind, gzip.compress(content, mtime=0))
    unpacked = packed.unpack()
    assert unpacked is not None
    assert (unpacked.where, unpacked.start) == ("a", content[:SAMPLE])
    assert unpacked.read() == content
    assert open_as(kind, content).unpack() is None
    format_, file = recognize_format(open_as(kind, gzip.compress(SYMBOL)))
    assert (format_.name, file.read()) == ("mxnet", SYMBOL)


def test_a_stream_and_a_url_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    size = SAMPLE + 9
    monkeypatch.setattr(model_file, "MAX_STREAM", size)
    monkeypatch.setattr(model_file, "_PIECE", 5)
    for kind in ("stream", "url"):
        assert len(open_as(kind, bytes(size)).read()) == size
        with pytest.raises(
            InputError, match=r"is larger than 0 MiB|has 65\.5 kB, and graphs of up to 0 MiB"
        ):
            open_as(kind, bytes(size + 1)).read()
    monkeypatch.setattr(model_file, "MAX_STREAM", 3 << 20)
    with pytest.raises(InputError, match="graphs of up to 3 MiB are read from a URL"):
        open_as("url", bytes((3 << 20) + 1)).read()
    with pytest.raises(InputError, match="is larger than 3 MiB"):
        open_as("stream", bytes((3 << 20) + 1)).read()
    assert len(open_as("stream", bytes(size))._read(SAMPLE + 2)) in (SAMPLE + 5, SAMPLE + 9)


@pytest.mark.parametrize(
    ("name", "content", "format_"),
    [
        ("a.onnx", SYMBOL, "mxnet"),
        ("a.json", b"\x08\x07\x3a\x02\x0a\x00", "onnx"),
        ("a.onnx", b"\xffnothing known", "onnx"),
        ("A.ONNX", b"\xffnothing known", "onnx"),
        ("a.bin", b"\xffnothing known", "mxnet"),
        ("a.onnx", b"%PDF-1.4", "mxnet"),
    ],
)
def test_the_content_names_the_format_and_only_then_the_suffix(
    name: str, content: bytes, format_: str
) -> None:
    file = HeldFile(name, content)
    assert recognize_format(file) == (recognize_format(file)[0], file)
    assert recognize_format(file)[0].name == format_


def test_stdin_must_be_open_and_not_a_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def open_stdin(stdin: Any) -> str:
        monkeypatch.setattr("sys.stdin", stdin)
        with open_model_file(STDIN) as file:
            return f"{type(file).__name__} {file.where} {file.read().decode()}"

    with pytest.raises(InputError, match="<stdin>: is closed"):
        open_stdin(None)
    with pytest.raises(
        UsageError, match="<stdin>: is a terminal, and a graph is read from a file or a pipe"
    ):
        open_stdin(SimpleNamespace(isatty=lambda: True))
    (tmp_path / "a").write_bytes(b"12345")
    with open(tmp_path / "a") as stdin:
        assert open_stdin(stdin) == "_LocalFile <stdin> 12345"
    with open_model_file(str(tmp_path / "a")) as file:
        assert (type(file), file.read()) == (_LocalFile, b"12345")
    with (
        pytest.raises(InputError, match="cannot be read: No such file"),
        open_model_file(str(tmp_path / "b")),
    ):
        pass
    with pytest.raises(InputError, match="cannot be read: embedded null"), open_model_file("a\0b"):
        pass
