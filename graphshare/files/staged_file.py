"""The file of an output, beside its place or an open descriptor; its errors, and change reports.

An output may name an open descriptor of this process (``/dev/stdout``, ``/dev/fd/3``). Only
descriptors open at a command's start count: later ones are its own, for example of temporary files.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from graphshare.errors import Fault, OutputError
from graphshare.text.markup import quote_shell, write_path

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_REASONS = {
    errno.ENOSPC: ("the disk is full", "make room, or write to another disk"),
    errno.EDQUOT: ("the disk quota is used up", "make room, or write to another disk"),
    errno.EFBIG: (
        "the file would exceed the size limit",
        "see `ulimit -f` and the file system's own limit",
    ),
    errno.EACCES: (
        "permission denied",
        "the directory must be writable: the output is written beside its target first",
    ),
    errno.EPERM: ("the operation is not permitted", ""),
    errno.EROFS: ("the file system is read-only", ""),
    errno.ENOTDIR: ("a part of the path is a file, not a directory", ""),
    errno.ENAMETOOLONG: ("the name is too long", ""),
    errno.ELOOP: ("the symbolic links form a loop", ""),
    errno.ENOENT: ("no file can be made in its directory", "write to another directory"),
    errno.EPIPE: ("the reader closed the pipe", ""),
}


def output_error(error: OSError, target: str) -> OutputError:
    """Return ``error`` as an OutputError that names the user's output."""
    directory = os.path.dirname(target)
    # Some directories, such as /proc, exist and take no new file.
    if error.errno == errno.ENOENT and not os.path.isdir(directory):
        return OutputError(
            Fault(
                "the directory does not exist",
                where=target,
                hint=f"create it: mkdir -p {quote_shell(write_path(directory or '.'))}",
            )
        )
    if os.name == "nt" and error.errno == errno.EACCES:
        return OutputError(
            Fault(
                "cannot be written: permission denied",
                where=target,
                hint="close it in the program that has it open",
            )
        )
    reason, hint = _REASONS.get(error.errno or 0, (error.strerror or str(error), ""))
    return OutputError(Fault(f"cannot be written: {reason}", where=target, hint=hint))


OutputListener = Callable[[str, bool], None]
"""Receives each changed output, and whether it is complete: one written directly changes piece by
piece.
"""
_LISTENER: ContextVar[OutputListener | None] = ContextVar("output_listener", default=None)


@contextmanager
def output_listener(listener: OutputListener) -> Iterator[None]:
    """Report the outputs of the transactions inside the block to ``listener``."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


_OVERWRITE: ContextVar[bool] = ContextVar("overwrite", default=False)


@contextmanager
def overwriting(allowed: bool = True) -> Iterator[None]:
    """Allow (or with ``allowed`` False forbid) transactions in the block to replace existing objects at URLs.

    Local files are always replaced.

    Raises: nothing of its own; outside of such a block a transaction raises OutputError for a URL that exists.
    """
    token = _OVERWRITE.set(allowed or _OVERWRITE.get())
    try:
        yield
    finally:
        _OVERWRITE.reset(token)


def may_overwrite() -> bool:
    """Whether an output may replace the object at its URL."""
    return _OVERWRITE.get()


def note_output(target: str, is_complete: bool) -> None:
    """Report a changed output to the listener, if any."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(target, is_complete)


class _Raw(io.FileIO):
    """A file whose errors name the target, not the temporary file."""

    target = ""
    direct = False

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            count = super().write(data)
        except OSError as error:
            raise output_error(error, self.target) from error
        if self.direct and count:
            note_output(self.target, False)
        return count


class StagedFile(io.BufferedWriter):
    """The file that :meth:`OutputTransaction.open` returns.

    ``target`` is the requested path, ``name`` the path of the bytes until the commit. ``direct``
    bytes can be neither read back nor taken back: they go to a pipe, a device, or a redirected
    stdout.
    """

    def __init__(self, fd: int, name: str, target: str, *, direct: bool = False) -> None:
        raw = _Raw(fd, "wb")
        # FileIO has the number of the descriptor here.
        raw.name = name
        raw.target = target
        raw.direct = direct
        super().__init__(raw)
        self.target = target
        self.direct = direct


_DESCRIPTOR = r"(?:/dev|/proc/(?:self|thread-self|\d+)(?:/task/\d+)?)/fd/(\d+)"
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_LAST = 1 << 8  # where open descriptors cannot be listed, those below this are tried
_inherited: frozenset[int] | None = None  # None in a library, where the caller may have opened some


def note_inherited_descriptors() -> None:
    """Note open descriptors, at the start of a command."""
    global _inherited
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except (OSError, ValueError):
        numbers = list(range(_LAST))
    _inherited = frozenset(filter(_is_open, numbers))  # without the one that listed them


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except (OSError, OverflowError):
        return False
    return True


def find_descriptor(path: str) -> int | None:
    """Return the open descriptor that ``path`` names (``/dev/stdout``, ``/dev/fd/3``), if any.

    Replacing the file behind a redirected stdout would leave the shell's descriptor with the old,
    empty one. Raises OutputError for a descriptor that is closed, or this process's own.
    """
    number = _descriptor_number(path)
    if number is None or number in _STANDARD.values():
        return number
    if (_inherited is not None and number not in _inherited) or not _is_open(number):
        hint = f"open it in the shell, as in {number}>FILE"
        raise OutputError(Fault(f"descriptor {number} is not open", where=path, hint=hint))
    return number


def _descriptor_number(path: str) -> int | None:
    path = os.path.abspath(path)
    if path in _STANDARD:
        return _STANDARD[path]
    if not path[-1:].isdigit():  # most paths; they then need not be resolved
        return None
    # Only the folder is resolved: /dev/fd/3 itself is a link to the file behind the descriptor.
    for candidate in (
        path,
        os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)),
    ):
        match = re.fullmatch(_DESCRIPTOR, candidate)
        if match is not None and (not candidate.startswith("/proc/") or _is_own(candidate)):
            return int(match.group(1))
    return None


def _is_own(path: str) -> bool:
    owner = path.split("/")[2]
    return owner in ("self", "thread-self", str(os.getpid()))
