"""Outputs that name an open descriptor of this process: ``/dev/stdout``, ``/dev/fd/3``.

A command has descriptors of its own, of its temporary files for instance; only those count that were open when it started.
"""

from __future__ import annotations

import os
import re

from graphshare.errors import Fault, OutputError

_DESCRIPTOR = r"(?:/dev|/proc/(?:self|thread-self|\d+)(?:/task/\d+)?)/fd/(\d+)"
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_LAST = 1 << 8  # where open descriptors cannot be listed, those below this are tried
_inherited: frozenset[int] | None = None  # None in a library, where the caller may have opened some


def note_inherited_descriptors() -> None:
    """Note which descriptors are open, at the start of a command."""
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
    """Return the number of the open descriptor that ``path`` names (``/dev/stdout``, ``/dev/fd/3``), if it names one.

    Replacing the file behind a redirected standard output would leave the shell's descriptor with the old, empty one. Raises
    OutputError for a descriptor that is not open, or that this process has opened for itself.
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
    if not path[-1:].isdigit():  # most paths, which then need not be resolved
        return None
    for candidate in (path, os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))):
        match = re.fullmatch(_DESCRIPTOR, candidate)
        if match is not None and (not candidate.startswith("/proc/") or _is_own(candidate)):
            return int(match.group(1))
    return None


def _is_own(path: str) -> bool:
    owner = path.split("/")[2]
    return owner in ("self", "thread-self", str(os.getpid()))
