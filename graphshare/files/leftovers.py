"""Names and locks of the temporary files beside an output; leftovers of killed runs are removed.

A temporary file is ``.graphshare-<CRC-32 of the target's name>-<random>.tmp`` for the new content
and ``.old`` for the old. Its run holds an advisory lock (flock) on the new content, even as the
target; the system releases it when the run ends or is killed. So a leftover is a file whose lock is
free; for ``.old``, the locks of every new content and of the target. Without lock support nothing
is removed.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from zlib import crc32

try:
    import fcntl
    import resource
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

TEMPORARY_START = ".graphshare-"
"""How the names of temporary files begin."""
_MINUTE = 60.0
_MOST_FOLDERS = 1000


def temporary_path(place: str, ending: str) -> str:
    """Return a new path beside ``place``, without the target's name: that may be as long as names
    get.
    """
    folder, name = os.path.split(place)
    return os.path.join(folder, f"{_start(name)}{os.urandom(8).hex()}{ending}")


def create_locked(place: str, mode: int, note: Callable[[str], None]) -> tuple[int, int]:
    """Create a temporary file for ``place``; return its descriptor, and one that keeps its lock.

    The second is -1 without locks. ``note`` gets the path before it exists, so that an interrupt
    leaves nothing behind. If another run takes the file for a leftover before it is locked, a new
    one is created.
    """
    flags = (
        os.O_RDWR
        | os.O_CREAT
        | os.O_EXCL
        | getattr(os, "O_BINARY", 0)
        | getattr(os, "O_CLOEXEC", 0)
    )
    raised = False
    while True:
        path = temporary_path(place, ".tmp")
        note(path)
        fd = lock = -1
        try:
            fd = os.open(path, flags, mode)
            # Systems without locks do not rename open files, so no second descriptor may stay.
            lock = os.dup(fd) if fcntl is not None else -1
            is_ours = _try_lock(fd) is not False and os.path.lexists(path)
        except FileExistsError:
            note("")
            continue
        except OSError as error:
            close(fd)
            close(lock)
            remove(path)
            if error.errno != errno.EMFILE or raised or fcntl is None:
                raise
            raised = _raise_descriptor_limit()
            continue
        if is_ours:
            return fd, lock
        close(fd)
        close(lock)
        remove(path)


class FolderMemory:
    """The temporary files of folders, up to a minute old, for a process that writes to a few often."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[float, list[str]]] = {}

    def list(self, folder: str) -> list[str]:
        listed, names = self._names.get(folder, (-math.inf, []))
        now = time.monotonic()
        if now - listed > _MINUTE:
            if len(self._names) >= _MOST_FOLDERS:
                self._names.clear()
            names = _list_temporaries(folder)
            self._names[folder] = now, names
        return names


_MEMORY: ContextVar[FolderMemory | None] = ContextVar("folder_memory", default=None)


@contextlib.contextmanager
def remember_folders(memory: FolderMemory) -> Iterator[None]:
    """Let transactions in the block list a folder at most once a minute: 10^5 files take 30 ms."""
    token = _MEMORY.set(memory)
    try:
        yield
    finally:
        _MEMORY.reset(token)


@contextlib.contextmanager
def hold_folder(folder: str) -> Iterator[None]:
    """Let one block at a time run for a folder, across processes, unless folders cannot be locked."""
    fd = -1
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
                fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        close(fd)


def list_temporaries(folder: str) -> list[str]:
    """Return the names of a folder's temporary files."""
    memory = _MEMORY.get()
    return _list_temporaries(folder) if memory is None else memory.list(folder)


def _list_temporaries(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder or ".") if name.startswith(TEMPORARY_START)]
    except OSError:  # it may be written but not listed
        return []


def remove_leftovers(place: str, names: Iterable[str]) -> None:
    """Remove the files in ``names`` beside ``place`` that a killed run has left for it.

    If the target is gone (a file system without hard links), its old content is put back.
    """
    if fcntl is None:
        return
    folder, name = os.path.split(place)
    paths = [os.path.join(folder, entry) for entry in names if entry.startswith(_start(name))]
    # In this order: new content that is put in place meanwhile is found locked as the target.
    is_live = [_remove_unlocked(path) for path in paths if path.endswith(".tmp")].count(False) > 0
    for path in paths:
        if path.endswith(".old") and not is_live and not _is_locked(place):
            if os.path.lexists(place):
                remove(path)
            else:
                with contextlib.suppress(OSError):
                    os.rename(path, place)


def remove(path: str) -> None:
    """Remove a file if it exists; retry after a passing error (a signal, a busy server)."""
    for _ in range(3):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError:
            continue
        return


def close(fd: int) -> None:
    """Close a descriptor; -1 means none."""
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.close(fd)


def _start(name: str) -> str:
    return f"{TEMPORARY_START}{crc32(os.fsencode(name)):08x}-"


def _raise_descriptor_limit() -> bool:
    """Raise this process's limit of open files: one command can have thousands of outputs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True


def _try_lock(fd: int) -> bool | None:
    """Return False if another run has the lock, None if files cannot be locked."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_locked(path: str) -> bool:
    try:
        # The target may have become a pipe.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it cannot be known
    try:
        return _try_lock(fd) is not True
    finally:
        os.close(fd)


def _remove_unlocked(path: str) -> bool:
    try:
        # Others may have put a link or a pipe there.
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        if _try_lock(fd) is not True:
            return False
        remove(path)
    finally:
        os.close(fd)
    return True
