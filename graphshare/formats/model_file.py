"""An open file of a model: its first bytes show the format that reads it as a whole or by
ranges.
"""

from __future__ import annotations

import os
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from graphshare.errors import Fault, InputError, UsageError
from graphshare.files.byte_source import SAMPLE, ByteSource, HeldBytes, read_whole
from graphshare.files.open_source import (
    GZIP,
    MAX_UNPACKED,
    open_source,
    unpack_gzip,
    unpack_gzip_start,
)
from graphshare.files.paths import STDIN, note_read
from graphshare.formats.model_names import list_file_endings
from graphshare.text.format import format_bytes
from graphshare.text.urls import is_url

# A graph of a million nodes takes 0.2 GB; a pipe or device (/dev/zero) may be endless.
MAX_STREAM = 1 << 30
_PIECE = 1 << 20
_FIRST = 1 << 18  # bytes of the first request for a graph: most have less


class ModelFile(ABC):
    """An open file. ``where`` is its path, a URL or the name of stdin, ``start`` its first
    bytes.
    """

    def __init__(self, where: str, start: bytes) -> None:
        self.where, self.start = where, start
        self.data = b""

    def read(self) -> bytes:
        """Return all bytes; of a pipe, a device or a URL at most ``MAX_STREAM``. Raises
        InputError.
        """
        if not self.data:
            with _locate_errors(self.where):
                self.data = self._read(None)
        return self.data

    def sample(self) -> bytes:
        """Return the bytes that identify another file: its start and, if known, its end."""
        return self.start

    def open(self) -> ByteSource:
        return HeldBytes(self.where, self.read())

    def unpack(self) -> ModelFile | None:
        """Return the file that gzip packed, with its start unpacked."""
        return (
            _PackedFile(self, unpack_gzip_start(self.start, SAMPLE))
            if self.start.startswith(GZIP)
            else None
        )

    @abstractmethod
    def _read(self, most: int | None) -> bytes:
        """Return all bytes, or at most ``most``."""


class HeldFile(ModelFile):
    """A file whose bytes are in memory."""

    def __init__(self, where: str, data: bytes) -> None:
        super().__init__(where, data[:SAMPLE])
        self.data = data

    def _read(self, most: int | None) -> bytes:
        return self.data


class _LocalFile(ModelFile):
    def __init__(self, where: str, file: BinaryIO) -> None:
        # Not 0 if another program has read a part of the same stdin.
        self._file, self._begin = file, file.tell()
        super().__init__(where, file.read(SAMPLE))

    def sample(self) -> bytes:
        with _locate_errors(self.where):
            # A zip archive, such as .npz, lists its members at its end.
            self._file.seek(
                max(self._begin + len(self.start), self._file.seek(0, os.SEEK_END) - SAMPLE)
            )
            return self.start + self._file.read()

    def open(self) -> ByteSource:
        return open_source("-" if self.where == STDIN else self.where)

    def _read(self, most: int | None) -> bytes:
        self._file.seek(self._begin)
        return self._file.read() if most is None else self._file.read(most)


class _Stream(ModelFile):
    """A pipe or a device; it is read once."""

    def __init__(self, where: str, file: BinaryIO) -> None:
        self._file = file
        super().__init__(where, file.read(SAMPLE))

    def _read(self, most: int | None) -> bytes:
        pieces, size = [self.start], len(self.start)
        while (most is None or size < most) and (piece := self._file.read(_PIECE)):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_STREAM:
                hint = "is it a model? One of this size must be a file, not a pipe or a device"
                raise InputError(
                    Fault(f"is larger than {MAX_STREAM >> 20} MiB", where=self.where, hint=hint)
                )
        return b"".join(pieces)


class _RemoteFile(ModelFile):
    def __init__(self, where: str, source: ByteSource) -> None:
        self._source = source
        super().__init__(where, source.read_at(0, min(SAMPLE, source.size)))

    def sample(self) -> bytes:
        rest = min(SAMPLE, self._source.size - len(self.start))
        return self.start + self._source.read_at(self._source.size - rest, rest)

    def open(self) -> ByteSource:
        return self._source

    def _read(self, most: int | None) -> bytes:
        if self._source.size > MAX_STREAM:
            message = (
                f"has {format_bytes(self._source.size)}, and graphs of up to {MAX_STREAM >> 20} "
                f"MiB are read from a URL"
            )
            raise InputError(Fault(message, where=self.where, hint="is it a symbol file?"))
        return read_whole(self._source)


class _PackedFile(ModelFile):
    def __init__(self, packed: ModelFile, start: bytes) -> None:
        self._packed = packed
        super().__init__(packed.where, start)

    def _read(self, most: int | None) -> bytes:
        # Packed data is hardly ever larger than its content.
        return unpack_gzip(self._packed._read(MAX_UNPACKED), where=self.where)


@contextmanager
def open_model_file(path: str) -> Iterator[ModelFile]:
    """Open the file of a model, one at a URL, or stdin. Raises InputError."""
    if is_url(path):
        with open_source(path, endings=list_file_endings(), first=_FIRST) as source:
            yield _RemoteFile(path, source)
        return
    if path == STDIN:
        yield _open_stdin()
        return
    note_read(path)
    with _locate_errors(path):
        file = open(path, "rb")  # noqa: SIM115 (closed below; errors of the caller's block must not be located here)
    with file:
        with _locate_errors(path):
            opened = _open_file(path, file)
        yield opened


def _open_stdin() -> ModelFile:
    if sys.stdin is None:
        raise InputError(
            Fault("is closed", where=STDIN, hint="pipe a symbol file into the command")
        )
    if sys.stdin.isatty():
        hint = "pipe a symbol file into the command, or name one"
        raise UsageError(
            Fault(
                "is a terminal, and a graph is read from a file or a pipe", where=STDIN, hint=hint
            )
        )
    with _locate_errors(STDIN):
        return _open_file(STDIN, sys.stdin.buffer)


def _open_file(path: str, file: BinaryIO) -> ModelFile:
    is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    return _LocalFile(path, file) if is_regular else _Stream(path, file)


@contextmanager
def _locate_errors(path: str) -> Iterator[None]:
    try:
        yield
    # open() raises ValueError for a path with a NUL.
    except (OSError, ValueError) as error:
        raise InputError(
            Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=path)
        ) from error
    except MemoryError:
        raise InputError(
            Fault("does not fit in memory", where=path, hint="is this a symbol file?")
        ) from None
