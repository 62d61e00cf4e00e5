"""Outputs that appear whole or not at all, several files as one act.

Each output is written to a temporary file beside its target. ``commit`` brings all of them to the disk, then puts them in place
one after the other; when anything fails, the old files are put back. Recovery is promised for errors, full disks and
signals that become exceptions, not for a power cut between two renames.

An output that is not a regular file (a pipe, a terminal, ``/dev/null``, ``/dev/stdout``) is written directly, and flushed
before any file is put in place.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from graphshare.errors import Fault, OutputError, RefusedError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_DESCRIPTOR = re.compile(r"(?:/dev|/proc/(?:self|thread-self|\d+)(?:/task/\d+)?)/fd/(\d+)")
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_NO_FSYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF})
_REASONS = {
    errno.ENOSPC: ("the disk is full", "make room, or write to another disk"),
    errno.EDQUOT: ("the disk quota is used up", "make room, or write to another disk"),
    errno.EFBIG: ("the file would become larger than is allowed", "see `ulimit -f` and the file system's own limit"),
    errno.EACCES: ("permission denied", "the directory must be writable: the output is written beside its target first"),
    errno.EPERM: ("the operation is not permitted", ""),
    errno.EROFS: ("the file system is read-only", ""),
    errno.ENOTDIR: ("a part of the path is a file, not a directory", ""),
    errno.ENAMETOOLONG: ("the name is too long", ""),
    errno.ELOOP: ("the symbolic links form a loop", ""),
    errno.EPIPE: ("the reader closed the pipe", ""),
}


def output_error(error: OSError, target: str) -> OutputError:
    """Return ``error`` as an OutputError that names the output the user asked for."""
    if error.errno == errno.ENOENT:
        directory = os.path.dirname(target) or "."
        return OutputError(Fault("the directory does not exist", where=target, hint=f"create it: mkdir -p {directory}"))
    reason, hint = _REASONS.get(error.errno or 0, (error.strerror or str(error), ""))
    return OutputError(Fault(f"cannot be written: {reason}", where=target, hint=hint))


class _Raw(io.FileIO):
    """A file whose failures speak of the target, not of the temporary file."""

    target = ""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise output_error(error, self.target) from error


class StagedFile(io.BufferedWriter):
    """What :meth:`OutputTransaction.open` returns.

    ``target`` is the path that was asked for, ``name`` where the bytes are until the commit. ``direct`` says that they go where
    they cannot be read back or taken back from: a pipe, a device, a redirected standard output.
    """

    def __init__(self, fd: int, name: str, target: str, *, direct: bool = False) -> None:
        raw = _Raw(fd, "wb")
        raw.name = name
        raw.target = target
        super().__init__(raw)
        self.target = target
        self.direct = direct


class _Output(msgspec.Struct, eq=False):
    target: str  # as asked for, for messages
    place: str  # where it goes, symbolic links followed; empty when written directly
    temporary: str = ""
    backup: str = ""
    existed: bool = False
    file: StagedFile | None = None


class OutputTransaction:
    """Several outputs as one. A context manager: left without ``commit``, or on any exception, nothing has changed."""

    def __init__(self) -> None:
        self._outputs: list[_Output] = []
        self._committed = False

    def __enter__(self) -> OutputTransaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        lost = [] if self._committed else self._roll_back()
        for output in self._outputs:
            if output not in lost:
                _remove(output.backup)
        if lost:
            raise OutputError([_explain_lost(output) for output in lost]) from value

    def open(self, path: str | os.PathLike[str]) -> StagedFile:
        """Open a binary file whose content becomes ``path`` on :meth:`commit`.

        Keeps the mode of a file that is replaced, and writes through symbolic links. Raises OutputError when ``path`` cannot be
        written (a directory, no permission, a missing directory), RefusedError when it was opened already.
        """
        target = os.fspath(path)
        try:
            return self._open(target)
        except OSError as error:
            raise output_error(error, target) from error
        except ValueError as error:  # a NUL in the path
            raise OutputError(Fault(f"cannot be written: {error}", where=target)) from error

    def _open(self, target: str) -> StagedFile:
        descriptor = _own_descriptor(target)
        if descriptor is not None:
            return self._direct(target, os.dup(descriptor))
        place = os.path.realpath(target)
        status = _status(target)
        if (status is not None and stat.S_ISDIR(status.st_mode)) or target.endswith(os.sep):
            raise OutputError(Fault("is a directory", where=target, hint="give the path of a file"))
        if target.endswith(".gz"):
            hint = f"write {target.removesuffix('.gz')}, and gzip compresses that"
            raise OutputError(Fault("has a name of gzip, and nothing is written compressed", where=target, hint=hint))
        if status is not None and not stat.S_ISREG(status.st_mode):
            return self._direct(target, os.open(target, os.O_WRONLY))
        if any(output.place == place for output in self._outputs):
            raise RefusedError(Fault("is named for two outputs", where=target, hint="give each output its own path"))
        if status is not None and not os.access(place, os.W_OK):
            raise OutputError(Fault("is write-protected", where=target, hint=f"chmod u+w {target}"))
        output = _Output(target, place, existed=status is not None)
        self._outputs.append(output)
        fd = _create_beside(output, 0o666 if status is None else 0o600)
        output.file = StagedFile(fd, output.temporary, target)
        if status is not None:
            _keep_mode(fd, status)
        return output.file

    def _direct(self, target: str, fd: int) -> StagedFile:
        output = _Output(target, "")
        self._outputs.append(output)
        output.file = StagedFile(fd, target, target, direct=True)
        return output.file

    def commit(self) -> None:
        """Bring every output to the disk, then put all in place. Raises OutputError, and then everything is as it was."""
        for output in self._outputs:
            try:
                _complete(output)
            except OSError as error:
                raise output_error(error, output.target) from error
        staged = [output for output in self._outputs if output.place]
        for output in staged:
            try:
                _put_in_place(output)
            except OSError as error:
                raise output_error(error, output.target) from error
        for directory in dict.fromkeys(os.path.dirname(output.place) for output in staged):
            _sync_directory(directory)
        self._committed = True

    def _roll_back(self) -> list[_Output]:
        """Put everything back; return the outputs for which that was not possible."""
        lost = []
        for output in reversed(self._outputs):
            if output.file is not None:
                # The rest of the buffer may fail to be written once more; the descriptor is closed anyway.
                with contextlib.suppress(OSError, OutputError, ValueError):
                    output.file.close()
            if output.place and not _restore(output):
                lost.append(output)
        return lost


def _own_descriptor(path: str) -> int | None:
    """Return the number of the open descriptor that ``path`` names (``/dev/stdout``, ``/dev/fd/3``), if it names one.

    Replacing the file behind a redirected standard output would leave the shell's descriptor with the old, empty one.
    """
    path = os.path.abspath(path)
    if path in _STANDARD:
        return _STANDARD[path]
    for candidate in (path, os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))):
        match = _DESCRIPTOR.fullmatch(candidate)
        if match is not None and (not candidate.startswith("/proc/") or _is_own(candidate)):
            return int(match.group(1))
    return None


def _is_own(path: str) -> bool:
    owner = path.split("/")[2]
    return owner in ("self", "thread-self", str(os.getpid()))


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _create_beside(output: _Output, mode: int) -> int:
    """Create the temporary file; its name is independent of the target's, which may be as long as names get."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    while True:
        output.temporary = _beside(output)  # noted before it exists, so that an interrupt in between leaves nothing behind
        try:
            return os.open(output.temporary, flags, mode)
        except FileExistsError:
            output.temporary = ""


def _beside(output: _Output) -> str:
    return os.path.join(os.path.dirname(output.place), f".graphshare-{os.urandom(8).hex()}.tmp")


def _keep_mode(fd: int, status: os.stat_result) -> None:
    if hasattr(os, "fchown") and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(OSError):  # only the superuser may give files away
            os.fchown(fd, status.st_uid, status.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(fd, stat.S_IMODE(status.st_mode))


def _complete(output: _Output) -> None:
    assert output.file is not None
    output.file.flush()
    try:
        os.fsync(output.file.fileno())
    except OSError as error:
        if output.place or error.errno not in _NO_FSYNC:
            raise
    output.file.close()


def _put_in_place(output: _Output) -> None:
    if output.existed:
        backup = _beside(output)
        output.backup = backup
        try:
            os.link(output.place, backup)
        except OSError:
            os.replace(output.place, backup)  # a file system without hard links
    os.replace(output.temporary, output.place)


def _restore(output: _Output) -> bool:
    """Put back the old file of ``output``; return False when that fails, and then the backup is kept."""
    restored = True
    placed = bool(output.temporary) and output.file is not None and not os.path.lexists(output.temporary)
    if output.backup and os.path.lexists(output.backup):
        try:
            os.replace(output.backup, output.place)
        except OSError:
            restored = False
        else:
            _remove(output.backup)  # still there when both were names of one file
    elif placed and not output.existed:
        _remove(output.place)
    _remove(output.temporary)
    return restored


def _explain_lost(output: _Output) -> Fault:
    return Fault("could neither be written nor put back", where=output.target, hint=f"the old file is in {output.backup}")


def _remove(path: str) -> None:
    if path:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _sync_directory(directory: str) -> None:
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # not every file system lets a directory be synchronised
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
