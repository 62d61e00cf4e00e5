"""A file at a URL as a source of ranges, and as a whole.

Each place in headers gets one request of at most 4 KiB: the index of a large file costs little.
Files in archives, whose ranges are costly, are copied first.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import ByteSource, Identity, raise_shrunk, read_whole
from graphshare.files.remote.filesystem import RemotePath, translate_errors
from graphshare.files.remote.ranges import Answer, Fetch, choose_fetch, refuse_changed
from graphshare.text.format import format_bytes, format_count
from graphshare.text.urls import list_schemes

WINDOW = 4096  # bytes of the smallest request
MAX_COPY = 4 << 30
"""The largest file, in bytes, that is copied out of an archive."""
_KEPT = 6  # answers that are kept, and at most so many bytes of each
_KEPT_SIZE = 1 << 16
_PIECE = 8 << 20
_ARCHIVES = frozenset(
    {"zip", "tar", "libarchive", "gzip", "filecache", "simplecache", "blockcache"}
)


class RemoteFile(ByteSource):
    """A file at a URL, read by ranges. Its identity is its size and its entity tag or time."""

    window = WINDOW

    def __init__(self, url: str, fetch: Fetch, *, first: int = WINDOW) -> None:
        self.name = url
        self._fetch = fetch
        self._answers: list[Answer] = []
        self._prefetched: list[Answer] = []
        (start,) = fetch((0, first), version="")
        self.size, self._version = start.size, start.version
        self.identity: Identity = (start.size, start.version)
        self._start = start
        self._is_whole = len(start.data) == start.size

    @property
    def is_kept(self) -> bool:
        """Whether the first answer has all bytes, and a tag unique to this content."""
        return self._is_whole and self._version.startswith('"')

    def read_at(self, offset: int, length: int) -> bytes:
        if offset + length > self.size:
            raise_shrunk(self.name, self.size)
        answer = self._find(offset, length)
        if answer is None:
            (answer,) = self._request((offset, min(self.size, offset + max(length, WINDOW))))
            if len(answer.data) <= _KEPT_SIZE:
                self._answers = [*self._answers[1 - _KEPT :], answer]
        start = offset - answer.start
        if len(answer.data) < start + length:
            raise_shrunk(self.name, answer.start + len(answer.data))
        return answer.data[start : start + length]

    def prefetch(self, bounds: Iterable[tuple[int, int]]) -> None:
        """Request the missing bytes, joining near ranges up to ``WINDOW`` bytes."""
        wanted: list[tuple[int, int]] = []
        for start, stop in sorted(bounds):
            if wanted and stop <= wanted[-1][0] + WINDOW:
                wanted[-1] = wanted[-1][0], max(stop, wanted[-1][1])
            elif self._find(start, stop - start) is None:
                wanted.append((start, stop))
        self._prefetched = self._request(*wanted) if wanted else []

    def _request(self, *bounds: tuple[int, int]) -> list[Answer]:
        answers = self._fetch(*bounds, version=self._version)
        if any(answer.size != self.size for answer in answers):
            raise refuse_changed(self.name)
        return answers

    def _find(self, offset: int, length: int) -> Answer | None:
        near = bisect_right(self._prefetched, offset, key=_get_start)
        for answer in (self._start, *self._answers, *self._prefetched[max(near - 1, 0) : near]):
            if answer.start <= offset and offset + length <= answer.start + len(answer.data):
                return answer
        return None

    def check_unchanged(self) -> None:
        """Compare the version once more, unless each request has named it."""
        is_checked = self._is_whole or self._version.startswith('"')
        if not is_checked:
            self._request((0, WINDOW))

    def close(self) -> None:
        self._answers, self._prefetched = [], []


def _get_start(answer: Answer) -> int:
    return answer.start


class CopiedFile(ByteSource):
    """A temporary copy of a file at a URL, with the original's identity."""

    def __init__(self, place: RemotePath, file: BinaryIO, identity: Identity, size: int) -> None:
        self.name, self.identity, self.size = place.url, identity, size
        self._place, self._file = place, file

    def read_at(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(length)
        if len(data) < length:
            raise_shrunk(self.name, offset + len(data))
        return data

    def descriptor(self) -> int:
        return self._file.fileno()

    def check_unchanged(self) -> None:
        if _find_identity(self._place) != self.identity:
            raise refuse_changed(self.name)

    def close(self) -> None:
        self._file.close()


def open_url(url: str, *, first: int = 0) -> ByteSource:
    """Open the file at a URL; the first request is for ``first`` bytes.

    Raises InputError if it does not exist, cannot be read, or is in an archive and too large to
    copy.
    """
    place = RemotePath(url)
    if list_schemes(url)[0] in _ARCHIVES:
        return _copy(place)
    return RemoteFile(
        url, choose_fetch(place) or _FileSystemRanges(place), first=max(first, WINDOW)
    )


def open_small_url(url: str, identity: Identity) -> ByteSource:
    """Open a file at a URL that one request reads whole. The last one is kept, by its tag."""
    for kept in _small:
        if (kept.name, kept.identity) == (url, identity):
            return kept
    source = open_url(url, first=int(identity[0]))
    if isinstance(source, RemoteFile) and source.is_kept:
        _small[:] = [source]
    return source


_small: list[RemoteFile] = []


def read_url(url: str, limit: int) -> bytes:
    """Return all bytes of the file at a URL. Raises InputError for more than ``limit`` bytes."""
    with open_url(url, first=_PIECE) as source:
        if source.size > limit:
            message = f"has {format_bytes(source.size)}, and at most {format_bytes(limit)} are read"
            raise InputError(Fault(message, where=url))
        return read_whole(source)


class _FileSystemRanges:
    """Without conditional requests, versions come from the facts of the file."""

    def __init__(self, place: RemotePath) -> None:
        self._place = place

    def __call__(self, *bounds: tuple[int, int], version: str) -> list[Answer]:
        return [self._read(start, stop, version) for start, stop in bounds]

    def _read(self, start: int, stop: int, version: str) -> Answer:
        place = self._place
        size, current = _find_identity(place)
        if version and current != version:
            raise refuse_changed(place.url)
        stop = min(stop, int(size))
        with translate_errors(place.url):
            data = place.filesystem.cat_file(place.path, start, stop) if stop > start else b""
        return Answer(start, data, int(size), str(current))


def _find_identity(place: RemotePath) -> tuple[int, str]:
    with translate_errors(place.url):
        place.filesystem.invalidate_cache()
        facts = place.filesystem.info(place.path)
    if facts.get("type") == "directory":
        raise InputError(Fault("is a directory", where=place.url, hint="name a file in it"))
    return int(facts["size"] or 0), describe_version(facts)


def describe_version(facts: Mapping[str, Any]) -> str:
    """Return a text that changes with a file's content: its entity tag, checksum or time."""
    names = (
        "ETag",
        "etag",
        "md5Hash",
        "content_md5",
        "CRC",
        "LastModified",
        "last_modified",
        "mtime",
        "modified",
        "created",
    )
    return next((str(facts[name]) for name in names if facts.get(name) is not None), "")


def _copy(place: RemotePath) -> ByteSource:
    """Copy a file out of its archive; InputError when it is too large."""
    identity = _find_identity(place)
    if identity[0] > MAX_COPY:
        message = (
            f"unpacks to {format_bytes(identity[0])}, and files up to {format_bytes(MAX_COPY)} "
            f"are read from archives"
        )
        raise InputError(Fault(message, where=place.url, hint="unpack the archive first"))
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - the source closes it
    try:
        with translate_errors(place.url), place.filesystem.open(place.path, "rb") as file:
            # One piece beyond the listed size shows a wrong list; the rest could be endless.
            while copy.tell() <= identity[0] and (piece := file.read(_PIECE)):
                copy.write(piece)
        copy.flush()
        if copy.tell() != identity[0]:
            message = (
                f"has {format_count(copy.tell(), 'byte')} where the archive lists {identity[0]:,}"
            )
            raise InputError(Fault(message, where=place.url))
    except BaseException:
        copy.close()
        raise
    return CopiedFile(place, copy, identity, identity[0])
