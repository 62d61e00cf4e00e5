"""A file at a URL: which ranges are requested, and which bytes are kept."""

from __future__ import annotations

import pytest

from graphshare.errors import InputError
from graphshare.files.remote.ranges import Answer
from graphshare.files.remote.source import _KEPT, _KEPT_SIZE, WINDOW, RemoteFile

CONTENT = bytes(i * i % 251 for i in range(100 * WINDOW))


class Server:
    """A server of one file, whose content may become shorter; it remembers the ranges and versions that were asked for."""

    def __init__(self, content: bytes = CONTENT, version: str = '"tag"') -> None:
        self.content, self.version = content, version
        self.requests: list[tuple[int, int]] = []
        self.versions: list[str] = []

    def __call__(self, *bounds: tuple[int, int], version: str) -> list[Answer]:
        self.requests += bounds
        self.versions.append(version)
        return [Answer(start, self.content[start:stop], len(self.content), self.version) for start, stop in bounds]


def open_file(server: Server) -> RemoteFile:
    source = RemoteFile("http://h/a", server)
    server.requests.clear()
    return source


def test_the_first_answer_tells_the_size_and_the_version() -> None:
    server = Server()
    source = RemoteFile("http://h/a", server)
    assert (server.requests, server.versions) == ([(0, WINDOW)], [""])
    assert (source.size, source.identity, source.is_kept) == (len(CONTENT), (len(CONTENT), '"tag"'), False)
    source.read_at(WINDOW, 1)
    assert server.versions == ["", '"tag"']
    assert [RemoteFile("a", Server(CONTENT[:9], tag)).is_kept for tag in ('"tag"', "W/1", "")] == [True, False, False]


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
def test_a_range_is_requested_with_what_follows_it(offset: int, length: int, requests: list[tuple[int, int]]) -> None:
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
    source._fetch = lambda *bounds, version: [Answer(start, bytes(9), len(CONTENT), version) for start, _ in bounds]
    assert source.read_at(WINDOW, 9) == bytes(9)
    with pytest.raises(InputError, match=f"byte {3 * WINDOW + 9}: shrank"):
        source.read_at(3 * WINDOW, 10)


@pytest.mark.parametrize(("version", "size", "requests"), [("", 9, 0), ('"tag"', WINDOW + 1, 0), ("W/1", WINDOW + 1, 1)])
def test_only_a_file_without_a_tag_is_requested_once_more_at_the_end(version: str, size: int, requests: int) -> None:
    server = Server(CONTENT[:size], version)
    open_file(server).check_unchanged()
    assert server.requests == [(0, WINDOW)] * requests
