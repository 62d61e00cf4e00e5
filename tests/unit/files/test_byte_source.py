"""Sources of bytes: exact ranges, and an error for every file that is not what it was."""

from __future__ import annotations

import gzip
import io
import os
import tracemalloc
from pathlib import Path
from struct import Struct
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
    with (
        open_source(path) as source,
        pytest.raises(InputError, match=r"byte 100: shrank while it was being read"),
    ):
        source.read_at(95, 6)


def test_a_source_is_indexed_and_sliced_like_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1024
    target = tmp_path / "x"
    target.write_bytes(content)
    with open_source(target) as source:
        data = SourceBytes(source)
        assert len(data) == len(content)
        for start, stop in (
            (0, 0),
            (0, 10),
            (65530, 65540),
            (5, 200_000),
            (262_140, 262_144),
            (262_140, 300_000),
            (7, 3),
        ):
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
        for offset, whence, count in (
            (0, 0, 3),
            (5, 1, 20),
            (-4, 2, 10),
            (50, 0, 100),
            (200, 0, 1),
        ):
            assert file.seek(offset, whence) == real.seek(offset, whence)
            assert file.read(count) == real.read(count)
        with pytest.raises(OSError, match="the position -1 is before the start"):
            SourceFile(source).seek(-1)
        odd = SourceFile(source)
        odd.seek(5)
        with pytest.raises(OSError, match="the position -4 is before the start"):
            odd.seek(-9, os.SEEK_CUR)
        assert odd.seek(-5, os.SEEK_CUR) == 0


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes here")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        open_source(tmp_path / "pipe")


def test_a_block_is_read_once_for_what_is_inside_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(bytes(BLOCK) + b"12345678")
    reads: list[tuple[int, int]] = []
    with open_source(tmp_path / "x") as source:
        read_at = source.read_at
        monkeypatch.setattr(
            source,
            "read_at",
            lambda start, length: reads.append((start, length)) or read_at(start, length),
        )
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
def test_only_the_first_piece_of_stdin_is_judged(
    is_accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
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


class Counting(HeldBytes):
    """Bytes in memory that remember which ranges were read; a header is worth ``window`` bytes."""

    def __init__(self, content: bytes, window: int = 4) -> None:
        super().__init__("a", content)
        self.window = window  # type: ignore[misc]
        self.reads: list[tuple[int, int]] = []

    def read_at(self, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        return super().read_at(offset, length)


def test_a_cursor_reads_a_window_at_a_time() -> None:
    source = Counting(b"0123456789")
    cursor = Cursor(source)
    assert [cursor.take(count, "x") for count in (1, 3)] == [b"0", b"123"]
    assert source.reads == [(0, 4)]
    assert cursor.take(1, "x") == b"4"
    assert cursor.unpack(Struct("<BH"), "x") == (ord("5"), int.from_bytes(b"67", "little"))
    assert source.reads == [(0, 4), (4, 4)]
    assert cursor.unpack(Struct("<B"), "x") == (ord("8"),)
    assert source.reads[2:] == [(8, 2)]
    cursor = Cursor(source)
    source.reads.clear()
    assert (cursor.take(6, "x"), cursor.take(3, "x")) == (b"012345", b"678")
    assert source.reads == [(0, 6), (6, 4)]


def test_a_cursor_names_the_record_and_the_byte() -> None:
    cursor = Cursor(HeldBytes("a", b"0123456789"))
    cursor.take(4, "head")
    for record, at, place in (
        (-1, None, "byte 4"),
        (0, None, "record 0, byte 4"),
        (7, 0, "record 7, byte 0"),
    ):
        cursor.record = record
        with pytest.raises(InputError) as caught:
            cursor.fail("is odd", at=at, hint="h")
        (fault,) = caught.value.faults
        assert (fault.message, fault.where, fault.path, fault.hint) == ("is odd", "a", place, "h")
    for read in (
        lambda: cursor.take(7, "tail"),
        lambda: cursor.unpack(Struct("<Q"), "tail"),
        lambda: cursor.skip(7, "tail"),
    ):
        with pytest.raises(InputError, match=r"ends inside tail: expected [78] bytes, 6 left"):
            read()


def test_a_block_is_kept_until_another_one_is_read() -> None:
    source = Counting(bytes(BLOCK) + bytes(range(8)))
    data = SourceBytes(source)
    assert [data[BLOCK], data[BLOCK], data[BLOCK + 7], data[BLOCK : BLOCK + 8]] == [
        0,
        0,
        7,
        bytes(range(8)),
    ]
    assert source.reads == [(BLOCK, 8)]
    assert [data[0], data[BLOCK - 1], data[0:BLOCK]] == [0, 0, bytes(BLOCK)]
    assert source.reads[1:] == [(0, BLOCK)]
    assert [data[5:5], data[9:3]] == [b"", b""]


def test_bytes_in_memory_end_where_they_end() -> None:
    source = HeldBytes("a", b"0123")
    assert (source.read_at(4, 0), source.read_at(1, 3)) == (b"", b"123")
    buffer = bytearray(3)
    source.read_into(1, memoryview(buffer))
    assert buffer == b"123"
    with pytest.raises(InputError, match="a: byte 4: shrank"):
        source.read_at(2, 3)


@pytest.mark.parametrize(
    ("size", "is_small"),
    [(0, False), (1, True), (8 << 20, True), ((8 << 20) + 1, False), (None, False)],
)
def test_a_small_file_at_a_url_is_opened_again_as_a_whole(
    size: int | None, is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = () if size is None else (size, "1")
    opened: list[str] = []

    def note(kind: str) -> SimpleNamespace:
        opened.append(kind)
        return SimpleNamespace(identity=identity)

    monkeypatch.setattr(
        "graphshare.files.remote.source.open_small_url", lambda url, identity: note("small")
    )
    monkeypatch.setattr(open_source_module, "open_source", lambda path: note("ranges"))
    reopen_source("s3://m/a", identity)
    assert opened == ["small" if is_small else "ranges"]
    assert reopen_source("<stdin>", (), b"held").read_at(0, 4) == b"held"


@pytest.mark.parametrize(
    ("size", "start"), [(0, b""), (3, b"012"), (10, b"0123456789"), (99, b"0123456789")]
)
def test_the_start_of_a_packed_file_is_unpacked(size: int, start: bytes) -> None:
    packed = gzip.compress(b"0123456789")
    assert open_source_module.unpack_gzip_start(packed, size) == (start if size else b"0123456789")
    assert open_source_module.unpack_gzip_start(b"\x1f\x8bxx", 9) == b""


def test_a_packed_file_is_bounded_and_all_its_members_count(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    packed = gzip.compress(b"01234") + gzip.compress(b"56789")
    monkeypatch.setattr(open_source_module, "MAX_UNPACKED", 10)
    assert open_source_module.unpack_gzip(packed, where="a") == b"0123456789"
    monkeypatch.setattr(open_source_module, "MAX_UNPACKED", 9)
    with pytest.raises(InputError, match="a: unpacks to more than 0 MiB"):
        open_source_module.unpack_gzip(packed, where="a")
    monkeypatch.setattr(open_source_module, "MAX_UNPACKED", 10)
    with pytest.raises(InputError, match="ends inside its gzip data"):
        open_source_module.unpack_gzip(packed[:-1], where="a")
    with pytest.raises(InputError, match="is damaged: gzip reports"):
        open_source_module.unpack_gzip(packed[:20] + b"\xff\xff" + packed[22:], where="a")
    assert not open_source_module.is_gzip(str(path))
    path.write_bytes(packed)
    assert open_source_module.is_gzip(str(path))
    described = open_source_module.describe_file(str(path))
    assert (described.size, described.version) == (len(packed), str(path.stat().st_mtime_ns))


@pytest.mark.parametrize(
    ("name", "words"),
    [("a\0b", "cannot be read: embedded null"), ("a" * 300, "cannot be read: File name too long")],
)
@pytest.mark.skipif(os.name != "posix", reason="names as POSIX has them")
def test_a_path_that_cannot_be_opened_is_named_with_the_reason(name: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        open_source(name)
    (fault,) = caught.value.faults
    assert fault.message.startswith(words)
    assert fault.where == name
