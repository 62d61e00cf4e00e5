"""A symbol file that gzip has compressed is read as the plain one; of everything else only a sample is read."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from pathlib import Path

import pytest

import graphshare as gs
from graphshare.errors import InputError
from graphshare.files import open_source
from graphshare.files.byte_source import SAMPLE
from graphshare.formats.model_file import open_model_file
from tests.processes import done, files_in, graphshare, refused
from tests.surroundings import size_of_day
from tests.symbols import document, mxnet_text, operator, siamese, variable

TEXT = mxnet_text(siamese()).encode()


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "net-symbol.json.gz"
    path.write_bytes(gzip.compress(TEXT))
    return path


@pytest.mark.parametrize(
    "arguments",
    [["inspect", "--format", "json"], ["duplicate", "--prefix", "b-"], ["format"], ["upgrade"]],
)
def test_every_command_reads_it_as_the_plain_file(
    packed: Path, tmp_path: Path, arguments: list[str]
) -> None:
    plain = tmp_path / "plain.json"
    plain.write_bytes(TEXT)
    command, *options = arguments
    expected = done(graphshare(command, str(plain), *options)).stdout
    assert done(graphshare(command, str(packed), *options)).stdout == expected
    assert done(graphshare(command, "-", *options, data=packed.read_bytes())).stdout == expected


def test_several_members_are_one_text(tmp_path: Path) -> None:
    path = tmp_path / "two.json.gz"
    path.write_bytes(gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]))
    assert gs.load(path).data == TEXT


def test_check_finds_the_places_of_the_unpacked_text_and_fixes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "net-symbol.json.gz"
    unused = document([variable("data"), variable("unused"), operator("relu", "r", [0])], [2])
    path.write_bytes(gzip.compress(mxnet_text(unused).encode()))
    before = path.read_bytes()
    report = json.loads(graphshare("check", str(path), "--format", "json").stdout)
    assert [finding["code"] for finding in report["findings"]] == ["GS104"]
    refused(
        graphshare("check", "--fix", str(path)),
        str(path),
        "is compressed with gzip, and --fix writes in place",
    )
    assert path.read_bytes() == before


def test_nothing_plain_gets_a_name_of_gzip(packed: Path) -> None:
    before = packed.read_bytes()
    words = (
        "net-symbol.json.gz: ends in .gz, but outputs are written without compression",
        "hint: write ",
    )
    refused(graphshare("format", str(packed), "--in-place", "-o", str(packed)), *words)
    assert packed.read_bytes() == before
    assert files_in(packed.parent) == [packed.name]


def bomb(start: bytes, megabytes: int) -> bytes:
    squeeze = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = [
        squeeze.compress(start),
        *(squeeze.compress(b" " * (1 << 20)) for _ in range(megabytes)),
    ]
    return b"".join([*parts, squeeze.flush()])


def test_no_more_is_unpacked_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.json.gz"
    monkeypatch.setattr(open_source, "MAX_UNPACKED", len(TEXT))
    path.write_bytes(gzip.compress(TEXT))
    assert gs.load(path).data == TEXT
    path.write_bytes(gzip.compress(TEXT + b" "))
    with pytest.raises(InputError, match="unpacks to more than"):
        gs.load(path)


@pytest.mark.parametrize("start", [b'{"nodes": [', b"not JSON "])
def test_a_bomb_takes_no_more_memory_than_the_bound(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(bomb(start, size_of_day(288, 2048)))
    tracemalloc.start()
    try:
        with pytest.raises(
            InputError,
            match="unpacks to more than 256 MiB" if start[:1] == b"{" else "starts with 'not JSON",
        ):
            gs.load(path)
        assert tracemalloc.get_traced_memory()[1] < (
            open_source.MAX_UNPACKED * 5 // 2 if start[:1] == b"{" else 1 << 24
        )
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "start", [b"PK\x03\x04", b"\x12\x01\0\0\0\0\0\0", b"\x80\x02]", b"plain text"]
)
def test_of_a_large_file_of_another_kind_a_sample_is_read(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.write(start)
        file.truncate(1 << 36)  # a sparse file
    with open_model_file(str(path)) as opened:
        assert len(opened.sample()) == 2 * SAMPLE
    with pytest.raises(InputError, match="not a symbol file"):
        gs.load(path)


@pytest.mark.parametrize("key", ["storage_id", "dltype", "device_index"])
def test_a_graph_of_tvm_is_refused_by_every_command(tmp_path: Path, key: str) -> None:
    graph = siamese()
    graph["attrs"][key] = ["list_int", [0, 1, 2, 3]]
    path = tmp_path / "deploy.json"
    for text in (json.dumps(graph), mxnet_text(graph)):
        path.write_text(text)
        for command in (
            ["duplicate", "--prefix", "b-"],
            ["rename", "--prefix", "b-"],
            ["extract", "--target", "conv"],
            ["upgrade"],
        ):
            refused(
                graphshare(command[0], str(path), *command[1:], "-o", str(tmp_path / "out.json")),
                "is a graph of TVM's graph exec",
            )
    assert files_in(tmp_path) == ["deploy.json"]
    finding = json.loads(graphshare("check", str(path), "--format", "json").stdout)["findings"]
    assert [(found["code"], "TVM" in found["message"]) for found in finding] == [("GS002", True)]


def test_a_graph_of_tvm_is_recognized_by_its_operator(tmp_path: Path) -> None:
    path = tmp_path / "deploy.json"
    path.write_text(
        json.dumps(document([variable("x"), operator("tvm_op", "f", [0])], [1], version=None))
    )
    refused(
        graphshare("duplicate", str(path), "--prefix", "b-"),
        "is a graph of TVM's graph executor, not a symbol file",
    )
    path.write_text(
        json.dumps(
            document([variable("tvm_op"), operator("relu", "storage_id", [0])], [1], version=None)
        )
    )
    done(graphshare("duplicate", str(path), "--prefix", "b-"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "<stdin>: is an image, not a symbol file"),
        (
            gzip.compress(b"\x80\x02]q\0.", mtime=0),
            "<stdin>: is a Python pickle compressed with gzip, not a symbol file",
        ),
        (b"\x1f\x8b\x08\0" + b"\xff" * 40, "<stdin>: is damaged: gzip reports"),
    ],
    ids=["image", "pickle", "damaged"],
)
def test_wrong_input_in_a_pipe_is_named(data: bytes, words: str) -> None:
    refused(graphshare("inspect", "-", data=data), words)
