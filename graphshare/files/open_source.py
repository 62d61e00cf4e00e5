"""Open paths and URLs: local files, files on servers, and standard input; and unpack gzip files.

Standard input is read by ranges, from a temporary copy unless it is a regular file.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import zlib
from collections.abc import Callable
from typing import BinaryIO

from graphshare.errors import Fault, InputError, UsageError
from graphshare.files.byte_source import (
    BUSY,
    ByteSource,
    HeldBytes,
    Identity,
    ListedFile,
    raise_shrunk,
)
from graphshare.files.paths import STDIN, note_read, refuse_missing, suggest_files
from graphshare.text.urls import is_url

_MAX_COPY = 16 << 30
_PIECE = 1 << 20

_SMALL = 8 << 20  # bytes of a file at a URL that is read at once when its arrays are wanted


class LocalFile(ByteSource):
    """A regular file; its identity is its size and the time of its last change."""

    # Stays in the processor's cache, and the allocator keeps it: larger ones go back to the system
    # each time
    piece = 1 << 16

    def __init__(
        self, path: str, *, endings: tuple[str, ...] = (), descriptor: int | None = None
    ) -> None:
        self.name = path
        note_read(path)
        try:
            self._file = (
                io.FileIO(path, opener=_open_without_waiting)
                if descriptor is None
                else io.FileIO(descriptor)
            )
        except FileNotFoundError as error:
            raise InputError(
                refuse_missing(path, suggest_files(path, endings) if endings else "")
            ) from error
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
        hint = (
            "name a file in it"
            if kind == "a directory"
            else "this file is read by seeking: give a regular file"
        )
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

    def read_into(self, offset: int, buffer: memoryview) -> None:
        done = 0
        try:
            self._file.seek(offset)
            while done < len(buffer):
                count = self._file.readinto(buffer[done:])
                if not count:
                    raise_shrunk(self.name, offset + done)
                done += count
        except OSError as error:
            raise _unreadable(self.name, error) from error

    def descriptor(self) -> int | None:
        return self._file.fileno()

    def check_unchanged(self) -> None:
        if _identity(os.fstat(self._file.fileno())) != self.identity:
            raise InputError(Fault("changed while it was being read", where=self.name, hint=BUSY))

    def close(self) -> None:
        self._file.close()


def open_source(
    path: str | os.PathLike[str],
    *,
    endings: tuple[str, ...] = (),
    accepts: Callable[[bytes], bool] | None = None,
    first: int = 0,
) -> ByteSource:
    """Open the bytes at ``path`` (a path or a URL), or stdin for ``-``.

    A missing path suggests files that end in ``endings``. ``accepts`` decides by its start whether
    a pipe is read to its end. The first request to a URL is for ``first`` bytes.

    Raises InputError if the file does not exist, is not a regular file or cannot be read.
    """
    name = os.fspath(path)
    if name in ("-", STDIN):
        return LocalFile(STDIN, descriptor=_open_stdin(accepts))
    if is_url(name):
        from graphshare.files.remote.source import open_url  # start-up: only URLs need it

        try:
            return open_url(name, first=first)
        except InputError as error:
            raise suggest_others(error, name, endings) from error.__cause__
    return LocalFile(name, endings=endings)


def suggest_others(error: InputError, path: str, endings: tuple[str, ...]) -> InputError:
    """Add a hint on files near a missing URL that end in ``endings`` to its error."""
    if not endings or not isinstance(error.__cause__, FileNotFoundError):
        return error
    return InputError(refuse_missing(path, suggest_files(path, endings)))


def read_file(path: str, *, most: int = 1 << 30) -> bytes:
    """Return the bytes of a small file, at most ``most``.

    Raises OSError for a local file, InputError for a URL.
    """
    if not is_url(path):
        note_read(path)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size:  # a read sets aside as many bytes as it may return
                return file.read(min(size, most))
            pieces: list[bytes] = []
            while piece := file.read(min(most, 1 << 16)):  # a pipe
                pieces.append(piece)
                most -= len(piece)
            return b"".join(pieces)
    with open_source(path) as source:
        return source.read_at(0, min(source.size, most))


def describe_file(path: str) -> ListedFile:
    """Return a file's size and version. Raises InputError if a URL cannot be read."""
    if not is_url(path):
        status = os.stat(path)
        return ListedFile(path, status.st_size, str(status.st_mtime_ns))
    with open_source(path) as source:
        return ListedFile(path, source.size, str(source.identity[-1]))


def reopen_source(path: str, identity: Identity, held: bytes = b"") -> ByteSource:
    """Open a source that was read before; ``held`` are its bytes if it cannot be opened again.

    Raises InputError if it is gone or has another identity.
    """
    if held:
        return HeldBytes(path, held)
    # Every identity begins with the size.
    size = int(identity[0]) if identity else 0
    if is_url(path) and 0 < size <= _SMALL:
        from graphshare.files.remote.source import open_small_url  # start-up: only URLs need it

        source = open_small_url(path, identity)
    else:
        source = open_source(path)
    if source.identity != identity:
        source.close()
        raise InputError(Fault("changed since it was indexed", where=path, hint=BUSY))
    return source


def _open_without_waiting(path: str, flags: int) -> int:
    """A pipe may have no writer yet."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _identity(status: os.stat_result) -> Identity:
    return status.st_size, status.st_mtime_ns


def _unreadable(path: str, error: Exception) -> InputError:
    return InputError(
        Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=path)
    )


def _open_stdin(accepts: Callable[[bytes], bool] | None) -> int:
    """Return a descriptor of stdin, or of a copy, that can seek. A pipe is copied once for all
    calls.

    If ``accepts`` rejects the start of a pipe, only that is copied: an endless stream must not fill
    the disk.

    Raises:
        InputError: stdin is closed, cannot be read, has more than ``_MAX_COPY`` bytes, or has no
            room on the disk.
        UsageError: stdin is a terminal.
    """
    if sys.stdin is None:
        raise InputError(Fault("is closed", where=STDIN, hint="pipe a file into the command"))
    if sys.stdin.isatty():
        hint = "pipe a file into the command, or name one"
        raise UsageError(
            Fault("is a terminal, and a file or a pipe is needed", where=STDIN, hint=hint)
        )
    try:
        if stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode):
            # The source closes its descriptor.
            return os.dup(sys.stdin.fileno())
        return os.dup(_copy_stdin(accepts).fileno())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            Fault(f"cannot be read: {reason}", where=STDIN, hint="save it to a file first")
        ) from error


_copies: list[BinaryIO] = []  # the copy of stdin, once it was made


def _copy_stdin(accepts: Callable[[bytes], bool] | None) -> BinaryIO:
    """Return a temporary file without a name; it is gone when the process ends."""
    if _copies:
        return _copies[0]
    import tempfile  # start-up: only a pipe needs a copy

    copy = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
    source = sys.stdin.buffer
    size = 0
    while piece := source.read(_PIECE):
        copy.write(piece)
        # The start is enough to name the kind of file.
        if not size and accepts is not None and not accepts(piece):
            break
        size += len(piece)
        if size > _MAX_COPY:
            raise InputError(
                Fault(
                    f"is larger than {_MAX_COPY >> 30} GiB",
                    where=STDIN,
                    hint="save it to a file first",
                )
            )
    copy.flush()
    _copies.append(copy)
    return copy


_FETCH_AGAIN = "fetch or save it again"
GZIP = b"\x1f\x8b"
#: A symbol file of a million nodes has 200 MB. A gzip file of 260 kB can hold as much, so there must be a bound.
MAX_UNPACKED = 1 << 28


def unpack_gzip_start(data: bytes, size: int) -> bytes:
    """Unpack up to ``size`` bytes from ``data``, the start of a gzip file."""
    try:
        # 15 bits of window, and 16 for a header and a checksum of gzip.
        return zlib.decompressobj(wbits=31).decompress(data, size)
    except zlib.error:
        return b""


def unpack_gzip(data: bytes, *, where: str) -> bytes:
    """Return the unpacked content of a gzip file, all of its members.

    Raises InputError for damage, a cut, or more than ``MAX_UNPACKED`` bytes.
    """
    import gzip  # start-up: only gzip files need it

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(MAX_UNPACKED + 1)
    except EOFError:
        raise InputError(
            Fault(
                "ends inside its gzip data: the file is truncated", where=where, hint=_FETCH_AGAIN
            )
        ) from None
    except (OSError, zlib.error) as error:
        raise InputError(
            Fault(f"is damaged: gzip reports {error}", where=where, hint=_FETCH_AGAIN)
        ) from None
    if len(unpacked) > MAX_UNPACKED:
        hint = "if it is a symbol file, unpack it with gunzip: a plain file may be larger"
        raise InputError(
            Fault(f"unpacks to more than {MAX_UNPACKED >> 20} MiB", where=where, hint=hint)
        )
    return unpacked


def is_gzip(path: str) -> bool:
    """Whether the file at ``path`` is compressed with gzip."""
    return read_file(path, most=len(GZIP)) == GZIP
