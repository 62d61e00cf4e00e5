"""Files near a path that is not there, names in folders, and paths of descriptors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from graphshare.files.open_source import read_file
from graphshare.files.paths import is_listed_file, is_snapshot, suggest_files
from graphshare.files.staged_file import _descriptor_number


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("net-symbol.json", "net-0000.params", "net.txt", "other-symbol.json"):
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "stem_end", "hint"),
    [
        ("net", "", "did you mean 'net-symbol.json'?"),
        ("nett", "-symbol.json", "did you mean 'net'?"),
        ("ohter-symbol.json", "-symbol.json", "did you mean 'other-symbol.json' or 'net-symbol.json'?"),
        ("sub/net", "", ""),
        ("gone/net", "", "the directory 'gone' does not exist"),
        ("net.txt/net", "", ""),
        ("memory://gone/net", "", ""),
    ],
)
@pytest.mark.usefixtures("folder")
def test_files_near_a_path_are_suggested(path: str, stem_end: str, hint: str) -> None:
    assert suggest_files(path, (".json",), stem_end=stem_end) == hint


def test_a_folder_is_no_file_and_a_name_at_a_url_is_one(folder: Path) -> None:
    names = ("net.txt", "sub", "gone")
    assert [is_listed_file(str(folder), name) for name in names] == [True, False, False]
    assert [is_listed_file("s3://bucket", name) for name in names] == [True, True, True]


@pytest.mark.parametrize(("most", "data"), [(0, b""), (1, b"1"), (3, b"123"), (5, b"12345"), (9, b"12345")])
def test_at_most_so_many_bytes_are_read(most: int, data: bytes, folder: Path) -> None:
    assert read_file(str(folder / "net.txt"), most=most) == data
    if sys.platform != "win32":
        reader, writer = os.pipe()
        os.write(writer, b"12345")
        os.close(writer)
        assert read_file(f"/dev/fd/{reader}", most=most) == data
        os.close(reader)


def test_only_links_in_a_snapshot_beside_blobs_are_of_a_hub(folder: Path) -> None:
    for parts in ("hub/snapshots/1", "hub/blobs", "plain/snapshots/1", "hub/other/1"):
        (folder / parts).mkdir(parents=True, exist_ok=True)
    names = ("hub/snapshots/1", "hub/snapshots", "plain/snapshots/1", "hub/other/1", "hub/blobs")
    assert [is_snapshot(str(folder / name)) for name in names] == [True, True, False, False, False]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs the process file system of Linux")
@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/dev/stdout", 1),
        ("/dev/fd/3", 3),
        ("/proc/self/fd/12", 12),
        ("/proc/{own}/fd/4", 4),
        ("/proc/1/fd/3", None),  # of another process
        ("/dev/fd/x", None),
        ("/dev/3", None),
        ("a3", None),
    ],
)
def test_a_path_may_name_a_descriptor(path: str, number: int | None) -> None:
    assert _descriptor_number(path.format(own=os.getpid())) == number
