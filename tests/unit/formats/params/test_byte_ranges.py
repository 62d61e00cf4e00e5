"""Ranges of bytes: which requests copy them, and where two of them differ."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from graphshare.files.byte_source import HeldBytes
from graphshare.files.open_source import open_source
from graphshare.formats.params import byte_ranges
from graphshare.formats.params.byte_ranges import coalesce, copy_ranges, first_difference, write_all


@pytest.mark.parametrize(
    ("ranges", "joined"),
    [
        ([], []),
        ([(0, 0)], []),
        ([(5, 0), (7, 0)], []),
        ([(5, 2)], [(5, 2)]),
        ([(0, 2), (2, 3), (5, 0), (5, 1)], [(0, 6)]),
        ([(0, 2), (3, 3), (2, 1)], [(0, 2), (3, 3), (2, 1)]),
        ([(4, 2), (9, 0), (6, 1)], [(4, 3)]),
    ],
)
def test_neighbours_are_joined_and_empty_ranges_left_out(
    ranges: list[tuple[int, int]], joined: list[tuple[int, int]]
) -> None:
    assert list(coalesce(ranges)) == joined


@pytest.mark.parametrize("chunk", [3, 4, 100])
def test_the_system_copies_pieces_of_each_range(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(100))
    (tmp_path / "in").write_bytes(content)
    asked: list[tuple[int, int]] = []
    copied: list[int] = []

    def copy_file_range(source: int, target: int, count: int, offset: int) -> int:
        asked.append((count, offset))
        return os.write(target, os.pread(source, min(count, 5), offset))

    def refuse(*_: Any) -> None:
        raise AssertionError("the system copies all of it")

    monkeypatch.setattr(os, "copy_file_range", copy_file_range, raising=False)
    monkeypatch.setattr(byte_ranges, "_SYSTEM_CHUNK", chunk)
    monkeypatch.setattr(byte_ranges, "_copy_through_buffer", refuse)
    with open_source(str(tmp_path / "in")) as source, open(tmp_path / "out", "wb") as out:
        out.write(b"head")
        copy_ranges(source, [(10, 8), (50, 2)], out, advance=copied.append)
        assert out.tell() == 14
        out.write(b"tail")
    assert (tmp_path / "out").read_bytes() == b"head" + content[10:18] + content[50:52] + b"tail"
    assert asked == {
        3: [(3, 10), (3, 13), (2, 16), (2, 50)], 4: [(4, 10), (4, 14), (2, 50)], 100: [(8, 10), (3, 15), (2, 50)]
    }[chunk]  # fmt: skip
    assert sum(copied) == 10


def test_what_the_system_cannot_copy_goes_through_the_buffer_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(byte_ranges, "CHUNK", 4)
    source, out = HeldBytes("a", bytes(range(20))), io.BytesIO(b"head")
    out.seek(4)
    copied: list[int] = []
    copy_ranges(source, [(3, 10), (15, 4)], out, advance=copied.append)
    assert out.getvalue() == b"head" + bytes([*range(3, 13), *range(15, 19)])
    assert copied == [4, 4, 2, 4]


def test_every_byte_is_written_to_a_file_that_takes_few() -> None:
    pieces: list[bytes] = []

    class Slow(io.RawIOBase):
        def write(self, data: Any, /) -> int | None:
            pieces.append(bytes(data[:3]))
            return min(len(data), 3) if len(pieces) < 4 else None

    write_all(Slow(), b"01234567")  # type: ignore[arg-type]
    assert pieces == [b"012", b"345", b"67"]
    with pytest.raises(BlockingIOError):
        write_all(Slow(), b"0")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("at", "found"), [(None, None), (2, 0), (5, 3), (6, 4), (9, 7), (10, 8), (12, None), (1, None)]
)
def test_two_ranges_differ_from_the_first_other_byte_on(
    at: int | None, found: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_ranges, "CHUNK", 4)
    content = bytearray(range(20))
    left = HeldBytes("a", bytes(content))
    if at is not None:
        content[at] = 99
    right = HeldBytes("b", b"xyz" + content)
    assert first_difference(left, 2, right, 5, 10) == found
