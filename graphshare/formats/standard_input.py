"""Standard input as a file that can be read by ranges: itself where it is a regular file, else a temporary copy of a pipe."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable
from typing import BinaryIO

from graphshare.errors import Fault, InputError, UsageError
from graphshare.formats.output_paths import STDIN

MAX_COPY = 16 << 30
_PIECE = 1 << 20


def open_stdin(accepts: Callable[[bytes], bool] | None) -> int:
    """Return a descriptor of stdin, or of a copy, that can seek. A pipe is copied once; later calls share the copy.

    Only the start of a pipe is copied if ``accepts`` returns False for it, so that no endless stream of something else fills
    the disk.

    Raises:
        InputError: stdin is closed, cannot be read, goes on beyond ``MAX_COPY`` bytes, or has no room on the disk.
        UsageError: stdin is a terminal.
    """
    if sys.stdin is None:
        raise InputError(Fault("is closed", where=STDIN, hint="pipe a file into the command"))
    if sys.stdin.isatty():
        hint = "pipe a file into the command, or name one"
        raise UsageError(Fault("is a terminal, and a file or a pipe is needed", where=STDIN, hint=hint))
    try:
        if stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode):
            return os.dup(sys.stdin.fileno())
        return os.dup(_copy_stdin(accepts).fileno())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(Fault(f"cannot be read: {reason}", where=STDIN, hint="save it to a file first")) from error


_copies: list[BinaryIO] = []  # the copy of stdin, once it was made


def _copy_stdin(accepts: Callable[[bytes], bool] | None) -> BinaryIO:
    """Return a temporary file without a name; it is gone when the process ends."""
    if _copies:
        return _copies[0]
    copy = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
    source = sys.stdin.buffer
    size = 0
    while piece := source.read(_PIECE):
        copy.write(piece)
        if not size and accepts is not None and not accepts(piece):
            break
        size += len(piece)
        if size > MAX_COPY:
            raise InputError(Fault(f"goes on beyond {MAX_COPY >> 30} GiB", where=STDIN, hint="save it to a file first"))
    copy.flush()
    _copies.append(copy)
    return copy
