"""Sources of bytes: exact ranges, and an error for every file that is not what it was."""

from __future__ import annotations

import io
import os
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

import graphshare.files.open_source as open_source_module
from graphshare.errors import InputError
from graphshare.files.byte_source import BLOCK, Cursor, HeldBytes, SourceBytes, SourceFile
from graphshare.files.open_source import open_source, read_file, reopen_source
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index
from graphshare.formats.params.mxnet_params import FORMAT
from tests import params_bytes as build


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "x"
    target.write_bytes(bytes(range(100)))
    return target


def test_ranges_are_exact(path: Path) -> None:
    with open_source(path) as source:
        assert (source.name, source.size) == (str(path), 100)
        assert source.read_at(10, 5) == bytes(range(10, 15))
        assert source.read_at(100, 0) == b""


def test_reading_a_small_file_sets_little_memory_aside(path: Path) -> None:
    tracemalloc.start()
    assert read_file(str(path)) == bytes(range(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_what_a_pipe_holds_is_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, bytes(5000))
    os.close(writing)
    assert read_file(f"/dev/fd/{reading}", most=4000) == bytes(4000)
    os.close(reading)


def test_a_range_beyond_the_end_is_an_error_with_the_byte_where_the_file_ends(path: Path) -> None:
    with open_source(path) as source, pytest.raises(InputError, match=r"byte 100: shrank while it was being read"):
        source.read_at(95, 6)


def test_a_source_is_indexed_and_sliced_like_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1024
    target = tmp_path / "x"
    target.write_bytes(content)
    with open_source(target) as source:
        data = SourceBytes(source)
        assert len(data) == len(content)
        for start, stop in ((0, 0), (0, 10), (65530, 65540), (5, 200_000), (262_140, 262_144), (262_140, 300_000), (7, 3)):
            assert data[start:stop] == content[start:stop]
        assert [data[place] for place in (0, 65_535, 65_536, 3, 262_143)] == [0, 255, 0, 3, 255]
        with pytest.raises(IndexError):
            data[262_144]
        os.truncate(target, 100)
        with pytest.raises(InputError, match="while it was being read"):
            data[100_000:100_010]


def test_a_file_that_changed_cannot_be_reopened(path: Path) -> None:
    with open_source(path) as source:
        identity = source.identity
    reopen_source(str(path), identity).close()
    os.utime(path, ns=(0, 0))
    with pytest.raises(InputError, match="changed since it was indexed"):
        reopen_source(str(path), identity)


def test_a_file_that_changes_while_its_arrays_are_read_is_an_error(tmp_path: Path) -> None:
    target = tmp_path / "x.params"
    target.write_bytes(build.container([build.dense((2,))], ["w"]))
    file = read_index(target)

    def read_and_touch() -> None:
        with ArrayReader(file) as reader:
            reader.read(file.records[0])
            os.utime(target, ns=(0, 0))

    with pytest.raises(InputError, match="changed while it was being read"):
        read_and_touch()


def test_a_file_that_changes_while_it_is_copied_is_an_error(tmp_path: Path) -> None:
    target = tmp_path / "x.params"
    target.write_bytes(build.container([build.dense((1 << 20,))], ["w"]))
    file = read_index(target)

    class Touching(io.BytesIO):
        def write(self, data, /) -> int:
            if self.tell() > 24:  # the source is open now, and its data on its way
                os.utime(target, ns=(0, 0))
            return super().write(data)

    with pytest.raises(InputError, match="changed while it was being read"):
        FORMAT.copy([(file, [(record, "w") for record in file.records])], Touching())


def test_a_source_as_a_file_object_reads_and_seeks_like_a_file(path: Path) -> None:
    with open_source(path) as source, open(path, "rb") as real:
        file = io.BufferedReader(SourceFile(source), 7)
        for offset, whence, count in ((0, 0, 3), (5, 1, 20), (-4, 2, 10), (50, 0, 100), (200, 0, 1)):
            assert file.seek(offset, whence) == real.seek(offset, whence)
            assert file.read(count) == real.read(count)
        with pytest.raises(OSError, match="before the start"):
            SourceFile(source).seek(-1)


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes here")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        open_source(tmp_path / "pipe")


def test_a_block_is_read_once_for_what_is_inside_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(bytes(BLOCK) + b"12345678")
    reads: list[tuple[int, int]] = []
    with open_source(tmp_path / "x") as source:
        read_at = source.read_at
        monkeypatch.setattr(source, "read_at", lambda start, length: reads.append((start, length)) or read_at(start, length))
        data = SourceBytes(source)
        assert data[0] == 0
        assert data[0:BLOCK] == bytes(BLOCK)
        assert data[BLOCK - 1] == 0
        assert reads == [(0, BLOCK)]
        assert data[BLOCK] == ord("1")
        assert data[BLOCK : BLOCK + 8] == b"12345678"
        assert reads == [(0, BLOCK), (BLOCK, 8)]
        assert data[BLOCK - 1 : BLOCK + 1] == b"\x001"
        assert reads[2:] == [(BLOCK - 1, 9)]
        assert data[0 : BLOCK + 1] == bytes(BLOCK) + b"1"
        assert reads[3:] == [(0, BLOCK + 1)]


@pytest.mark.parametrize("is_accepted", [True, False])
def test_only_the_first_piece_of_stdin_is_judged(is_accepted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    piece = open_source_module._PIECE
    monkeypatch.setattr(open_source_module, "_copies", [])
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"x" * (piece + 1))))
    judged: list[int] = []

    def accepts(content: bytes) -> bool:
        judged.append(len(content))
        return is_accepted

    with open_source_module._copy_stdin(accepts) as copy:
        assert judged == [piece]
        assert copy.seek(0, io.SEEK_END) == (piece + 1 if is_accepted else piece)
        assert open_source_module._copy_stdin(None) is copy


def test_a_cursor_stops_at_the_end_of_its_source() -> None:
    cursor = Cursor(HeldBytes("a", b"0123456789"))
    assert (cursor.take(6, "head"), cursor.skip(4, "data"), cursor.position) == (b"012345", 6, 10)
    cursor = Cursor(HeldBytes("a", b"0123456789"))
    cursor.take(6, "head")
    with pytest.raises(InputError, match="data"):
        cursor.skip(5, "data")
    with pytest.raises(InputError, match="tail"):
        cursor.take(5, "tail")
