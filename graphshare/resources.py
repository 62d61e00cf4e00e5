"""Limits of memory, time and threads: sizes are compared before memory is taken, long work ends at
its limit.

Work that is about to take memory asks :func:`describe_excess`. Without a user's limit the bound is
the limit of the process's control group minus its use, else the available memory.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import NoReturn

from graphshare.arguments import Natural, Options, Seconds
from graphshare.errors import Fault, MemoryLimitError, RefusedError, UsageError

if sys.platform != "win32":
    import resource
from graphshare.text.format import format_bytes

_FREE = 32 << 20  # bytes that may be taken without asking the system for the available memory
_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_UNLIMITED = 1 << 60  # control groups without a limit state about 2^63
_SIZE = r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*"

# Seconds until the timer repeats: the first time may be in a callback that drops exceptions
_REPEAT = 1.0
_GRACE = 1.0  # seconds that a single call of native code may go on after the limit

_LIMIT: ContextVar[int | None] = ContextVar("memory_limit", default=None)
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""The variables that limit the threads of numpy's BLAS."""
MORE_MEMORY = "the commands that compute take `max_memory=SIZE`, as in `max_memory='16G'`, to allow more or less"


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``2G``, ``512M``, ``1.5GiB`` or ``4096``.

    Raises:
        UsageError: the text is not a size above 0.
    """
    match = re.fullmatch(_SIZE, text, re.IGNORECASE)
    size = int(float(match[1]) * _UNITS[(match[2] or "").lower()]) if match is not None else 0
    if not size:
        raise UsageError(
            Fault(f"{text!r} is not a size of memory", hint="write it as 2G, 512M or 1.5GiB")
        )
    return size


@contextmanager
def memory_limit(count: int | None) -> Iterator[None]:
    """Limit the work inside the block to ``count`` bytes; None leaves the limit unchanged."""
    if count is None:
        yield
        return
    token = _LIMIT.set(count)
    try:
        yield
    finally:
        _LIMIT.reset(token)


@contextmanager
def resource_limits(max_memory: int | str | None, seconds: float | None) -> Iterator[None]:
    """Bound memory, in bytes or as :func:`parse_size` reads it, and time inside the block, unless
    they are None.

    Raises:
        RefusedError: the time limit has passed.
        UsageError: ``max_memory`` is not a size, or no time limit is possible here.
    """
    size = parse_size(max_memory) if isinstance(max_memory, str) else max_memory
    with memory_limit(size), time_limit(seconds):
        yield


class Resources(Options, frozen=True, kw_only=True):
    """Limits of work: ``max_memory`` in bytes or as :func:`parse_size` reads it, and ``time_limit``
    in seconds.

    Without a limit of memory the available memory is the bound.
    """

    max_memory: Natural | str | None = None
    time_limit: Seconds | None = None

    def limit(self) -> AbstractContextManager[None]:
        """See :func:`resource_limits`."""
        return resource_limits(self.max_memory, self.time_limit)


def find_memory_limit() -> int | None:
    """Return the user's limit in bytes, or None."""
    return _LIMIT.get()


def is_chosen_limit(error: Exception) -> bool:
    """Whether a limit that the user chose ended a computation, and not the machine's memory or
    another refusal.
    """
    return isinstance(error, MemoryLimitError) and find_memory_limit() is not None


def can_limit_process() -> bool:
    """Whether a process can be given a limit of memory here."""
    return sys.platform == "linux"


def count_threads() -> int:
    """Return the number of threads of a session: as many as numpy's BLAS has."""
    for variable in THREADS:
        number = os.environ.get(variable, "")
        if number.isdecimal() and int(number) > 0:
            return int(number)
    # A container or taskset may give this process fewer cores than the machine has.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_excess(count: int, held: int = 0) -> str:
    """Return the end of a message about ``count`` more bytes above the limit, empty below it.

    ``held`` bytes are taken already; they count against the user's limit.
    """
    chosen = _LIMIT.get()
    if chosen is not None:
        return f"and the limit is {format_bytes(chosen)}" if count + held > chosen else ""
    if count <= _FREE:
        return ""
    available = available_memory()
    return (
        f"and {format_bytes(available)} are available"
        if available is not None and count > available
        else ""
    )


def available_memory() -> int | None:
    """Return the bytes that this process can still take, None if unknown."""
    known = [
        size
        for size in (_free_in_groups(), _free_in_machine(), _free_in_address_space())
        if size is not None
    ]
    return max(0, min(known)) if known else None


def _free_in_machine() -> int | None:
    """Return ``MemAvailable`` in bytes, on other systems the machine's memory."""
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _free_in_groups() -> int | None:
    """Return the least memory that this process's control groups (versions 1 and 2) leave; None
    without a limit.
    """
    free: list[int] = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            free += _free_up_to_root("/sys/fs/cgroup", group, "memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            # In version 1 only the values that begin with total_ include the groups below, as the
            # usage does.
            root = "/sys/fs/cgroup/memory"
            free += _free_up_to_root(
                root, group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
            )
    return min(free, default=None)


def _free_up_to_root(
    root: str, group: str, limit_file: str, use_file: str, prefix: str
) -> Iterator[int]:
    """Yield the bytes that each group from ``group`` up leaves. Cached files count as use, but give
    way.
    """
    # Inside of a namespace a group beyond its root begins with '/..'.
    parts = [part for part in group.split("/") if part and part != ".."]
    for depth in range(len(parts), -1, -1):
        folder = "/".join((root, *parts[:depth]))
        limit, use = _read(f"{folder}/{limit_file}").strip(), _read(f"{folder}/{use_file}").strip()
        # Version 2 writes 'max' where there is no limit.
        if limit.isdigit() and use.isdigit() and int(limit) < _UNLIMITED:
            cached = [line.split() for line in _read(f"{folder}/memory.stat").splitlines()]
            names = (f"{prefix}inactive_file", f"{prefix}active_file")
            yield (
                int(limit)
                - int(use)
                + sum(int(entry[1]) for entry in cached if len(entry) == 2 and entry[0] in names)
            )


def _free_in_address_space() -> int | None:
    """Return what the limit of the address space (``ulimit -v``) leaves; None without one."""
    if sys.platform == "win32":
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = _read("/proc/self/statm").split()
    return (
        limit - int(pages[0]) * resource.getpagesize()
        if limit != resource.RLIM_INFINITY and pages
        else None
    )


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class TimeUp(BaseException):
    """Ends the work inside of :func:`time_limit`, where it becomes an error; no handler catches it
    on the way.
    """


class _Watchdog:
    """Ends the process where native code goes on after the limit."""

    timer: threading.Timer | None = None


@contextmanager
def time_limit(
    seconds: float | None, *, overrun: Callable[[], None] | None = None
) -> Iterator[None]:
    """End the work inside the block after ``seconds``, unless that is None. Only the main thread
    can have one.

    ``overrun`` is called in another thread where a single call of native code goes on for too long
    after the limit.

    Raises:
        RefusedError: the limit has passed.
        UsageError: this is not the main thread, or the system has no interval timer.
    """
    if seconds is None:
        yield
        return
    # Python runs handlers of signals in the main thread only.
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        raise UsageError(
            Fault("a time limit needs the main thread of a system with interval timers")
        )
    before = signal.signal(signal.SIGALRM, _raise_time_up)
    try:
        try:
            _start_watchdog(seconds + _GRACE, overrun)
            signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT)
            yield
        finally:
            # Inside of the outer try: it catches a TimeUp that is raised just before the timer
            # stops.
            signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeUp:
        raise time_error(seconds) from None
    finally:
        # Again, because that TimeUp leaves the repeating timer running.
        signal.setitimer(signal.ITIMER_REAL, 0)
        _stop_watchdog()
        signal.signal(signal.SIGALRM, before)


def time_error(seconds: float) -> RefusedError:
    """Return the error of a time limit."""
    hint = "`time_limit=S` allows more; smaller inputs, or fewer at a time, need less"
    return RefusedError(
        Fault(f"the time limit of {seconds:g} s has passed; nothing was written", hint=hint)
    )


def end_time_limit() -> None:
    """Let the rest of the work finish: the answer is there, and files are about to be written."""
    is_main = threading.current_thread() is threading.main_thread()  # no other has a limit
    if (
        is_main
        and hasattr(signal, "setitimer")
        and signal.getsignal(signal.SIGALRM) is _raise_time_up
    ):
        signal.setitimer(signal.ITIMER_REAL, 0)
        _stop_watchdog()


def find_time_left() -> float | None:
    """Return the seconds until the limit of :func:`time_limit`; None without one, and always in
    threads.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if (
        is_main
        and hasattr(signal, "setitimer")
        and signal.getsignal(signal.SIGALRM) is _raise_time_up
    ):
        return signal.getitimer(signal.ITIMER_REAL)[0] or None
    return None


def _stop_watchdog() -> None:
    if _Watchdog.timer is not None:
        _Watchdog.timer.cancel()
        _Watchdog.timer = None


def _start_watchdog(seconds: float, overrun: Callable[[], None] | None) -> None:
    if overrun is not None:
        _Watchdog.timer = threading.Timer(seconds, overrun)
        _Watchdog.timer.daemon = True
        _Watchdog.timer.start()


def _raise_time_up(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeUp
