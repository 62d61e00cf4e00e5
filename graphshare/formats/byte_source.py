"""Where bytes are read from. A format sees no path: it reads ranges of a :class:`ByteSource`.

A local file is the one kind of source today; another (a URL) is one class more and one branch in :func:`open_source`.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, overload

from graphshare.errors import Fault, InputError
from graphshare.formats.nearby import refuse_missing, suggest_files
from graphshare.formats.output_paths import STDIN

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Identity = tuple[int, ...]
"""Equal for as long as the content of a source is the same."""

BUSY = "another process is writing this file"
_BLOCK = 1 << 16


class ByteSource(ABC):
    """Bytes that are read by ranges. A context manager.

    ``name`` is what messages call the source (the path of a file), ``size`` its number of bytes, ``identity`` what changes with
    its content.
    """

    name: str
    size: int
    identity: Identity

    @abstractmethod
    def read_at(self, offset: int, length: int) -> bytes:
        """Return the ``length`` bytes from ``offset`` on. Raises InputError when they are not there or cannot be read."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise InputError when the content has changed since the source was opened."""

    def descriptor(self) -> int | None:
        """Return a file descriptor from which the system can copy ranges by itself; None where there is none."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Release what the source holds."""

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class LocalFile(ByteSource):
    """A regular file. Its identity is its size and the time of its last change."""

    def __init__(self, path: str, *, endings: tuple[str, ...] = (), descriptor: int | None = None) -> None:
        self.name = path
        try:
            self._file = io.FileIO(path, opener=_open_without_waiting) if descriptor is None else io.FileIO(descriptor)
        except FileNotFoundError as error:
            raise InputError(refuse_missing(path, suggest_files(path, endings) if endings else "")) from error
        except IsADirectoryError as error:
            raise self._irregular("a directory") from error
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from error
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise self._irregular("not a regular file")
        self.size = status.st_size
        self.identity = _identity(status)

    def _irregular(self, kind: str) -> InputError:
        hint = "name a file in it" if kind == "a directory" else "this file is read by seeking: give a regular file"
        return InputError(Fault(f"is {kind}", where=self.name, hint=hint))

    def read_at(self, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        left = length
        try:
            self._file.seek(offset)
            while left:  # the system may return fewer bytes than there are
                part = self._file.read(left)
                if not part:
                    raise_shrunk(self.name, offset + length - left)
                parts.append(part)
                left -= len(part)
        except OSError as error:
            raise _unreadable(self.name, error) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def descriptor(self) -> int | None:
        return self._file.fileno()

    def check_unchanged(self) -> None:
        if _identity(os.fstat(self._file.fileno())) != self.identity:
            raise InputError(Fault("changed while it was being read", where=self.name, hint=BUSY))

    def close(self) -> None:
        self._file.close()


class SourceBytes:
    """A source that is indexed and sliced like ``bytes``, read block by block when it is looked at; it is never mapped.

    A mapped file that is cut short kills the process; here a source that changes is an InputError.
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
        if stop - start > _BLOCK:
            return self._read(start, stop - start)
        if not (self._start <= start and stop <= self._start + len(self._block)):
            self._read_block(start)
        return self._block[start - self._start : stop - self._start]

    def _read_block(self, start: int) -> None:
        if start >= self._source.size:
            raise IndexError(start)
        self._start, self._block = start, self._read(start, min(_BLOCK, self._source.size - start))

    def _read(self, start: int, length: int) -> bytes:
        content = self._source.read_at(start, length)
        self._source.check_unchanged()
        return content


class SourceFile(io.RawIOBase):
    """A source as a file object, for libraries that read from one."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._source.size}[whence]
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


def open_source(
    path: str | os.PathLike[str], *, endings: tuple[str, ...] = (), accepts: Callable[[bytes], bool] | None = None
) -> ByteSource:
    """Open the bytes at ``path``, those of stdin for ``-``; a path that does not exist suggests files that end in ``endings``.

    ``accepts`` tells from its start whether a pipe is worth reading to its end.

    Raises InputError when the file does not exist, is not a regular file or cannot be read.
    """
    name = os.fspath(path)
    if name in ("-", STDIN):
        from graphshare.formats.standard_input import open_stdin  # start-up: only this path needs temporary files

        return LocalFile(STDIN, descriptor=open_stdin(accepts))
    return LocalFile(name, endings=endings)


def reopen_source(path: str, identity: Identity) -> ByteSource:
    """Open a source that was read before. Raises InputError when it is gone or has another identity now."""
    source = open_source(path)
    if source.identity != identity:
        source.close()
        raise InputError(Fault("changed since it was indexed", where=path, hint=BUSY))
    return source


def raise_shrunk(name: str, at: int) -> NoReturn:
    """Raise InputError for a source that ends at byte ``at`` and was longer when it was opened."""
    raise InputError(Fault("shrank while it was being read", where=name, path=f"byte {at}", hint=BUSY))


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe without a writer is not waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _identity(status: os.stat_result) -> Identity:
    return status.st_size, status.st_mtime_ns


def _unreadable(path: str, error: Exception) -> InputError:
    return InputError(Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=path))
