"""Sources of bytes. Formats see no paths: they read ranges of a :class:`ByteSource`.

A source is a local file (:mod:`graphshare.files.open_source`), or a file at a URL
(:mod:`graphshare.files.remote.source`). A :class:`Cursor` reads headers of binary files.
"""

from __future__ import annotations

import errno
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from struct import Struct
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, overload

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.text.format import format_count

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Identity = tuple[int | str, ...]
"""Equal for as long as the content of a source is the same."""

BUSY = "another process is writing this file"
BLOCK = 1 << 16
"""The bytes of a :class:`SourceBytes` that are read at a time."""
SAMPLE = 1 << 16
"""The bytes from the start of a file, and from its end, that show its kind."""
_PIECE = 8 << 20
DAMAGED = "the file is damaged or cut short; get or save it again"


class ByteSource(ABC):
    """Bytes that are read by ranges; a context manager.

    ``name`` is for messages, ``size`` counts bytes; ``identity`` changes with the content.
    ``window`` is how many bytes of headers to read at once, ``piece`` how many of a stream of
    elements.
    """

    window = 16 * 1024  # many small headers at once, little waste where records are large
    piece = 1 << 20
    name: str
    size: int
    identity: Identity

    @abstractmethod
    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on; InputError if they cannot be read."""

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill ``buffer`` from ``offset`` on; InputError as :meth:`read_at`."""
        buffer[:] = self.read_at(offset, len(buffer))

    def prefetch(self, bounds: Iterable[tuple[int, int]]) -> None:  # noqa: B027  # a local file is near enough
        """Prepare for reads between these offsets, if a joint request is faster."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise InputError if the content has changed since the source was opened."""

    def descriptor(self) -> int | None:
        """Return a file descriptor from which the system can copy ranges, if any."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Release the resources."""

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class HeldBytes(ByteSource):
    """Bytes in memory, such as from a pipe or an unpacked gzip file."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self.content, self.size = name, content, len(content)
        self.identity: Identity = ()

    def read_at(self, offset: int, length: int) -> bytes:
        if offset + length > self.size:
            raise_shrunk(self.name, self.size)
        return self.content[offset : offset + length]

    def check_unchanged(self) -> None:
        pass

    def close(self) -> None:
        pass


class ListedFile(msgspec.Struct, frozen=True):
    """A file in a listing: path or URL, bytes (-1: unknown), and a version of its content, if any."""

    path: str
    size: int
    version: str


class SourceBytes:
    """A source that is indexed and sliced like ``bytes``, read block by block.

    It is never mapped: a mapped file that is cut short kills the process; here it is an InputError.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._start = 0
        self._block = b""

    def __len__(self) -> int:
        return self._source.size

    @overload
    def __getitem__(self, key: int) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> bytes: ...
    def __getitem__(self, key: int | slice) -> int | bytes:
        if isinstance(key, int):
            if not self._start <= key < self._start + len(self._block):
                self._read_block(key)
            return self._block[key - self._start]
        start, stop, _ = key.indices(self._source.size)
        if start >= stop:
            return b""
        if stop - start > BLOCK:
            return self._read(start, stop - start)
        if not (self._start <= start and stop <= self._start + len(self._block)):
            self._read_block(start)
        return self._block[start - self._start : stop - self._start]

    def _read_block(self, start: int) -> None:
        if start >= self._source.size:
            raise IndexError(start)
        self._start, self._block = start, self._read(start, min(BLOCK, self._source.size - start))

    def _read(self, start: int, length: int) -> bytes:
        # Offsets come from earlier reads, and mean nothing in different content.
        content = self._source.read_at(start, length)
        self._source.check_unchanged()
        return content


class SourceFile(io.RawIOBase):
    """A source as a file object, for libraries."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._source.size}[
            whence
        ]
        if start + offset < 0:
            raise OSError(errno.EINVAL, f"the position {start + offset} is before the start")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._source.size - self._position))
        view[:count] = self._source.read_at(self._position, count)
        self._position += count
        return count


def read_whole(source: ByteSource) -> bytes:
    """Return all bytes of a small source. Raises InputError if it changes meanwhile."""
    starts = range(0, source.size, _PIECE)
    data = b"".join([source.read_at(start, min(_PIECE, source.size - start)) for start in starts])
    source.check_unchanged()
    return data


def hash_pieces(pieces: Iterable[bytes | memoryview]) -> str:
    """Return the sha256 of bytes in pieces, in hexadecimal digits."""
    from hashlib import sha256  # start-up: it takes 3 MB, and few commands hash a file

    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def raise_shrunk(name: str, at: int) -> NoReturn:
    """Raise InputError for a source that has become shorter and ends at byte ``at``."""
    raise InputError(
        Fault("shrank while it was being read", where=name, path=f"byte {at}", hint=BUSY)
    )


class Cursor:
    """A place in a source. Each ``what`` names the part being read in messages.

    ``record`` numbers the array being read, -1 before and after them. ``window`` bytes are read at
    once. A reader sets ``ambiguous`` when bytes have two meanings. Every method raises InputError
    at the end.
    """

    __slots__ = ("ambiguous", "buffer", "position", "record", "size", "source", "start", "window")

    def __init__(self, source: ByteSource) -> None:
        self.source, self.size, self.window = source, source.size, source.window
        self.position = self.start = 0
        self.buffer = b""
        self.record = -1
        self.ambiguous = False

    def unpack(self, layout: Struct, what: str) -> tuple[int, ...]:
        """Return the next integers."""
        index = self.position - self.start
        if index + layout.size > len(self.buffer):
            index = self._fill(layout.size, what)
        self.position += layout.size
        return layout.unpack_from(self.buffer, index)

    def take(self, count: int, what: str) -> bytes:
        """Return the next ``count`` bytes; only for bounded counts."""
        index = self.position - self.start
        if index + count > len(self.buffer):
            index = self._fill(count, what)
        self.position += count
        return self.buffer[index : index + count]

    def skip(self, count: int, what: str) -> int:
        """Skip ``count`` bytes, and return the first one's offset."""
        start = self.position
        if count > self.size - start:
            self.cut_short(count, what)
        self.position = start + count
        return start

    def _fill(self, count: int, what: str) -> int:
        left = self.size - self.position
        if count > left:
            self.cut_short(count, what)
        self.buffer = self.source.read_at(self.position, min(left, max(count, self.window)))
        self.start = self.position
        return 0

    def cut_short(self, count: int, what: str) -> NoReturn:
        """Raise InputError: the file ends before the next ``count`` bytes do."""
        left = self.size - self.position
        self.fail(
            f"ends inside {what}: expected {format_count(count, 'byte')}, {left:,} left",
            hint=DAMAGED,
        )

    def fail(self, message: str, *, at: int | None = None, hint: str = "") -> NoReturn:
        """Raise InputError for the bytes at ``at`` (here by default)."""
        place = f"byte {self.position if at is None else at}"
        if self.record >= 0:
            place = f"record {self.record}, {place}"
        raise InputError(Fault(message, where=self.source.name, path=place, hint=hint))
