"""A file at a URL: which ranges are requested, and which bytes are kept."""

from __future__ import annotations

import io
import os
from types import SimpleNamespace
from typing import Any

import pytest

from graphshare.errors import InputError
from graphshare.files.remote import source
from graphshare.files.remote.ranges import Answer
from graphshare.files.remote.source import (
    _KEPT,
    _KEPT_SIZE,
    WINDOW,
    RemoteFile,
    _copy,
    _FileSystemRanges,
    describe_version,
    open_small_url,
    open_url,
    read_url,
)

CONTENT = bytes(i * i % 251 for i in range(100 * WINDOW))


class Server:
    """A server of one file, whose content may become shorter; it remembers the ranges and versions
    that were asked for.
    """

    def __init__(self, content: bytes = CONTENT, version: str = '"tag"') -> None:
        self.content, self.version = content, version
        self.requests: list[tuple[int, int]] = []
        self.versions: list[str] = []

    def __call__(self, *bounds: tuple[int, int], version: str) -> list[Answer]:
        self.requests += bounds
        self.versions.append(version)
        return [
            Answer(start, self.content[start:stop], len(self.content), self.version)
            for start, stop in bounds
        ]


def open_file(server: Server) -> RemoteFile:
    source = RemoteFile("http://h/a", server)
    server.requests.clear()
    return source


def test_the_first_answer_tells_the_size_and_the_version() -> None:
    server = Server()
    source = RemoteFile("http://h/a", server)
    assert (server.requests, server.versions) == ([(0, WINDOW)], [""])
    assert (source.size, source.identity, source.is_kept) == (
        len(CONTENT),
        (len(CONTENT), '"tag"'),
        False,
    )
    source.read_at(WINDOW, 1)
    assert server.versions == ["", '"tag"']
    assert [RemoteFile("a", Server(CONTENT[:9], tag)).is_kept for tag in ('"tag"', "W/1", "")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("offset", "length", "requests"),
    [
        (0, WINDOW, []),
        (0, WINDOW + 1, [(0, WINDOW + 1)]),
        (WINDOW - 1, 1, []),
        (WINDOW, 1, [(WINDOW, 2 * WINDOW)]),
        (WINDOW + 5, 3 * WINDOW, [(WINDOW + 5, 4 * WINDOW + 5)]),
        (len(CONTENT) - 2, 2, [(len(CONTENT) - 2, len(CONTENT))]),
        (len(CONTENT), 0, [(len(CONTENT), len(CONTENT))]),
    ],
)
def test_a_range_is_requested_with_what_follows_it(
    offset: int, length: int, requests: list[tuple[int, int]]
) -> None:
    server = Server()
    assert open_file(server).read_at(offset, length) == CONTENT[offset : offset + length]
    assert server.requests == requests


def test_the_latest_small_answers_are_kept() -> None:
    server = Server()
    source = open_file(server)
    starts = [WINDOW * 2 * (i + 1) for i in range(_KEPT + 1)]
    for start in starts:
        source.read_at(start, 1)
    large = (WINDOW, _KEPT_SIZE + 1)
    source.read_at(*large)
    server.requests.clear()
    for start in starts[1:]:
        assert source.read_at(start + 1, WINDOW - 1) == CONTENT[start + 1 : start + WINDOW]
    assert server.requests == []
    source.read_at(starts[0], 1)
    for length in (_KEPT_SIZE + 1, _KEPT_SIZE, _KEPT_SIZE):
        source.read_at(WINDOW, length)
    assert server.requests == [
        (starts[0], starts[0] + WINDOW), (WINDOW, WINDOW + _KEPT_SIZE + 1), (WINDOW, WINDOW + _KEPT_SIZE)
    ]  # fmt: skip


def test_near_ranges_are_requested_as_one_before_they_are_read() -> None:
    server = Server()
    source = open_file(server)
    at = 10 * WINDOW
    inside = [(at + 50, at + 60), (4, 8), (at, at + 10), (at + WINDOW - 5, at + WINDOW)]
    source.prefetch([*inside, (at + WINDOW - 4, at + WINDOW + 1)])
    assert server.requests == [(at, at + WINDOW), (at + WINDOW - 4, at + WINDOW + 1)]
    server.requests.clear()
    for start, stop in ((at, at + WINDOW), (at + 55, at + 60), (at + WINDOW - 4, at + WINDOW + 1)):
        assert source.read_at(start, stop - start) == CONTENT[start:stop]
    assert server.requests == []
    source.prefetch([(4, 8)])
    source.read_at(at, 1)
    assert server.requests == [(at, at + WINDOW)]


def test_a_file_that_has_become_another_one_is_refused() -> None:
    server = Server()
    source = open_file(server)
    with pytest.raises(InputError, match=f"byte {len(CONTENT)}: shrank while it was being read"):
        source.read_at(len(CONTENT) - 1, 2)
    assert server.requests == []
    server.content = CONTENT[:-1]
    with pytest.raises(InputError, match="changed"):
        source.read_at(WINDOW, 1)


def test_an_answer_that_is_too_short_ends_where_the_file_does_now() -> None:
    server = Server()
    source = open_file(server)
    source._fetch = lambda *bounds, version: [
        Answer(start, bytes(9), len(CONTENT), version) for start, _ in bounds
    ]
    assert source.read_at(WINDOW, 9) == bytes(9)
    with pytest.raises(InputError, match=f"byte {3 * WINDOW + 9}: shrank"):
        source.read_at(3 * WINDOW, 10)


@pytest.mark.parametrize(
    ("version", "size", "requests"), [("", 9, 0), ('"tag"', WINDOW + 1, 0), ("W/1", WINDOW + 1, 1)]
)
def test_only_a_file_without_a_tag_is_requested_once_more_at_the_end(
    version: str, size: int, requests: int
) -> None:
    server = Server(CONTENT[:size], version)
    open_file(server).check_unchanged()
    assert server.requests == [(0, WINDOW)] * requests


class Store:
    """A file system of one file, which states ``size`` bytes of it."""

    def __init__(self, content: bytes = b"0123456789", **facts: Any) -> None:
        self.content, self.facts = content, {"size": len(content), "ETag": "1", **facts}
        self.requests: list[tuple[int, int]] = []

    def info(self, path: str) -> dict[str, Any]:
        return self.facts

    def invalidate_cache(self, path: str | None = None) -> None:
        pass

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        self.requests.append((start, end))
        return self.content[start:end]

    def open(self, path: str, mode: str) -> io.BytesIO:
        return io.BytesIO(self.content)


def place_in(store: Store) -> Any:
    return SimpleNamespace(url="zip://a::b.zip", path="a", filesystem=store)


def test_ranges_of_a_file_system_end_with_the_file_and_have_its_version() -> None:
    store = Store()
    fetch = _FileSystemRanges(place_in(store))
    assert fetch((0, 4), (8, 20), (10, 12), version="1") == [
        Answer(0, b"0123", 10, "1"), Answer(8, b"89", 10, "1"), Answer(10, b"", 10, "1")
    ]  # fmt: skip
    assert store.requests == [(0, 4), (8, 10)]  # nothing is requested of an empty range
    assert fetch((0, 1), version="") == [Answer(0, b"0", 10, "1")]
    with pytest.raises(InputError, match="changed while it was being read"):
        fetch((0, 1), version="2")
    with pytest.raises(InputError, match="is a directory"):
        _FileSystemRanges(place_in(Store(type="directory")))((0, 1), version="")
    assert _FileSystemRanges(place_in(Store(b"", size=None)))((0, 4096), version="") == [
        Answer(0, b"", 0, "1")
    ]


@pytest.mark.parametrize(
    ("facts", "version"),
    [
        ({"ETag": '"1"', "mtime": 2}, '"1"'),
        ({"etag": None, "md5Hash": "x", "CRC": 3}, "x"),
        ({"mtime": 0.0, "created": 5}, "0.0"),
        ({"created": 5}, "5"),
        ({"size": 1}, ""),
    ],
)
def test_the_version_of_a_file_is_its_tag_checksum_or_time(
    facts: dict[str, Any], version: str
) -> None:
    assert describe_version(facts) == version


@pytest.mark.parametrize("piece", [1, 3, 4, 10, 100])
def test_a_file_in_an_archive_is_copied_as_a_whole(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_PIECE", piece)
    monkeypatch.setattr(source, "MAX_COPY", 10)
    store = Store()
    with _copy(place_in(store)) as copy:
        assert (copy.name, copy.size, copy.identity) == ("zip://a::b.zip", 10, (10, "1"))
        assert (copy.read_at(3, 4), copy.read_at(10, 0), copy.read_at(0, 10)) == (
            b"3456",
            b"",
            b"0123456789",
        )
        descriptor = copy.descriptor()
        assert descriptor is not None
        assert os.pread(descriptor, 3, 7) == b"789"
        with pytest.raises(InputError, match="byte 10: shrank"):
            copy.read_at(8, 3)
        copy.check_unchanged()
        store.facts["ETag"] = "2"
        with pytest.raises(InputError, match="changed"):
            copy.check_unchanged()
    for wrong in (9, 8, 0):
        with pytest.raises(
            InputError,
            match=f"has {min(10, -(-(wrong + 1) // piece) * piece)} bytes? where the archive lists",
        ):
            _copy(place_in(Store(size=wrong)))
    with pytest.raises(InputError, match="has 9 bytes where the archive lists 10"):
        _copy(place_in(Store(b"012345678", size=10)))
    with pytest.raises(
        InputError, match="unpacks to 11 B, and files up to 10 B are read from archives"
    ):
        _copy(place_in(Store(size=11)))


def test_a_small_file_is_kept_by_its_tag_and_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, int]] = []
    servers = {"http://h/a": Server(CONTENT[:9]), "http://h/b": Server(CONTENT[:9], "W/1")}

    def open_url(url: str, *, first: int = 0) -> RemoteFile:
        opened.append((url, first))
        return RemoteFile(url, servers[url])

    monkeypatch.setattr(source, "open_url", open_url)
    monkeypatch.setattr(source, "_small", [])
    a = open_small_url("http://h/a", (9, '"tag"'))
    assert open_small_url("http://h/a", (9, '"tag"')) is a
    # Without a tag it is not kept, and does not replace the one that is
    open_small_url("http://h/b", (9, "W/1"))
    assert open_small_url("http://h/a", (9, '"tag"')) is a
    open_small_url("http://h/a", (9, '"other"'))
    assert opened == [("http://h/a", 9), ("http://h/b", 9), ("http://h/a", 9)]
    opened.clear()
    assert read_url("http://h/a", 9) == CONTENT[:9]
    assert opened == [("http://h/a", source._PIECE)]
    with pytest.raises(InputError, match="has 9 B, and at most 8 B are read"):
        read_url("http://h/a", 8)


@pytest.mark.parametrize(
    ("url", "first", "wanted"),
    [
        ("http://h/a", 0, WINDOW),
        ("http://h/a", WINDOW + 1, WINDOW + 1),
        ("github://a:b@c/d", 9, WINDOW),
        ("ZIP://a::b", 9, None),
    ],
)
def test_only_files_in_archives_are_copied(
    url: str, first: int, wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    monkeypatch.setattr(source, "RemotePath", lambda url: SimpleNamespace(url=url))
    monkeypatch.setattr(
        source, "choose_fetch", lambda place: server if place.url.startswith("http") else None
    )
    monkeypatch.setattr(source, "_FileSystemRanges", lambda place: server)
    monkeypatch.setattr(source, "_copy", lambda place: place.url)
    opened: object = open_url(url, first=first)
    assert server.requests == ([(0, wanted)] if wanted else [])
    assert (opened == url) is (wanted is None)
