"""Native code of other packages on a stranger's model: in its own process, with limits, and ending
with this one.

A few bytes of a model can make a package take any amount of memory or time, or end its process.
Both sides send messages of msgpack; arrays follow as raw bytes, and a session's model is in a file
in memory that both have open, where the system has such files.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Thread, Timer
from typing import IO, Any

import msgspec

from graphshare.errors import Fault, GraphshareError, InputError, MemoryLimitError, RefusedError
from graphshare.python_process import start_python
from graphshare.resources import (
    MORE_MEMORY,
    available_memory,
    can_limit_process,
    find_memory_limit,
    find_time_left,
)
from graphshare.text.format import format_bytes

if sys.platform != "win32":
    import resource

_OPEN_FILE = "/proc/self/fd/{}"
_LENGTH = 8
# Bytes beside the computed values: stacks of threads, and memory that the allocator keeps
_BESIDE = 64 << 20
_GRACE = 1.0  # seconds after the user's limit
_FULL = 75  # the exit code where a message does not fit below the limit
_NO_MEMORY = (
    "bad_alloc",
    "bad allocation",
    "Failed to allocate",
    "Fail to alloc memory",
    "Cannot allocate memory",
)
# Not caused by a lack of memory
_FAULTY = {-getattr(signal, name, 0) for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")}

Handler = Callable[..., tuple[Any, list[Any]]]
"""Takes the data beside a message and its values; returns the answer's value and the data beside
it.
"""


class GoneError(RefusedError):
    """The process had ended before it was asked."""


class ConfinedProcess:
    """A process that answers messages with native code; all that it takes together counts against a
    limit.

    It runs ``serve`` of ``module``; ``name`` is its name in messages to the user. It ends where an
    answer takes more than ``seconds``, unless the user has set another limit of time, and after
    ``idle`` seconds without a message.
    """

    def __init__(
        self, module: str, name: str, *, seconds: float | None = None, idle: float | None = None
    ) -> None:
        # Sent later: garbage is collected at any time, in the middle of a message too
        self.closed: deque[int] = deque()
        self.owner = os.getpid()
        self._name, self._seconds, self._idle = name, seconds, idle
        self._waiting: Timer | None = None
        self._lock = Lock()
        self._model = _open_memory()
        files = [] if self._model is None else [self._model.fileno()]
        self._process = start_python(
            module,
            "serve",
            "".join(map(_OPEN_FILE.format, files)),
            inherited=files,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Native code and the allocator print messages of their own there.
            stderr=subprocess.DEVNULL,
            # Ctrl-C on the terminal reaches only this process; it then ends the other one.
            start_new_session=True,
        )
        self._end = weakref.finalize(self, _end, self._process, self._model, self.owner)

    @property
    def goes_on(self) -> bool:
        """Whether it takes messages from this process."""
        return self.owner == os.getpid() and self._end.alive and self._process.poll() is None

    def ask(
        self,
        kind: str,
        *values: Any,
        model: Iterable[bytes | memoryview] | None = None,
        beside: Sequence[Any] = (),
    ) -> tuple[Any, list[bytes]]:
        """Return the answer to a message, and the data beside it. ``beside`` is the message's.

        A ``model`` is put where the other process finds it. The bound of memory is the user's, else
        the available memory.

        Raises:
            InputError: the error that there was.
            MemoryLimitError: the limit was reached, or the process ended without an answer.
            RefusedError: the time was over.
            GoneError: it had ended before.
        """
        limit = find_memory_limit()
        left = find_time_left()
        # An error of the user's limit comes first.
        seconds = (
            None if self._seconds is None else self._seconds if left is None else left + _GRACE
        )
        # A fork has no thread that would release it
        with self._lock if self.owner == os.getpid() else Lock():
            if not self.goes_on:
                raise GoneError(
                    Fault(
                        "the process of the model's session has ended", hint="load the model again"
                    )
                )
            if self._waiting is not None:
                self._waiting.cancel()
            # Inside of the lock: all messages share the one file.
            beside = beside if model is None else [*beside, *self._place(model)]
            memory = available_memory() if limit is None else limit
            (outcome, value), data = self._exchange(
                (kind, memory, seconds, *values), beside, seconds
            )
            if outcome in ("late", "memory", "end"):
                self._end()
            elif self._idle is not None:
                self._waiting = Timer(self._idle, self._end_idle)
                self._waiting.daemon = True
                self._waiting.start()
        if outcome == "value":
            return value, data
        if outcome == "error":
            raise InputError([Fault(text, where=where) for text, where in value])
        raise self._describe_end(outcome, value, limit, seconds)

    def _exchange(
        self, message: tuple[Any, ...], beside: Sequence[Any], seconds: float | None
    ) -> tuple[Any, list[bytes]]:
        """Send a message; return the outcome with its value (a code if there is no answer), and the
        data beside it.
        """
        try:
            with self._kill_after(seconds) as is_over:
                while self.closed:
                    self._send(("close", None, None, self.closed.popleft()))
                self._send(message, beside)
                assert self._process.stdout is not None
                answer: Any = _receive(self._process.stdout)
        except BaseException:  # a limit of time, an interrupt: the answer is not wanted any more
            self._end()
            raise
        if answer is not None:
            return answer  # type: ignore[no-any-return]
        code = self._process.wait()  # with its stdout the process has ended
        return ("late" if is_over.is_set() else "memory" if code == _FULL else "end", code), []

    def _describe_end(
        self, outcome: str, code: int, limit: int | None, seconds: float | None
    ) -> RefusedError:
        if outcome == "late":
            hint = "`time_limit=S` allows more"
            return RefusedError(
                Fault(f"{self._name} took more than {seconds:g} s and was ended", hint=hint)
            )
        if outcome == "end":
            ending = f"signal {-code}" if code < 0 else f"exit code {code}"
            hint = "" if code in _FAULTY else MORE_MEMORY
            return MemoryLimitError(
                Fault(f"{self._name} ended without an answer ({ending})", hint=hint)
            )
        allowed = "is available" if limit is None else f"the limit of {format_bytes(limit)} allows"
        return MemoryLimitError(
            Fault(f"the model takes more memory in {self._name} than {allowed}", hint=MORE_MEMORY)
        )

    @contextmanager
    def _kill_after(self, seconds: float | None) -> Iterator[Event]:
        """End the process, and set the event, if the block takes more time."""
        is_over = Event()

        def kill() -> None:
            is_over.set()
            self._process.kill()

        timer = Timer(seconds or 0, kill)
        timer.daemon = True
        if seconds is not None:
            timer.start()
        try:
            yield is_over
        finally:
            timer.cancel()

    def _end_idle(self) -> None:
        if self._lock.acquire(blocking=False):  # else it is asked at this moment
            self._end()
            self._lock.release()

    def _place(self, model: Iterable[bytes | memoryview]) -> Sequence[bytes]:
        """Write a model into the file in memory, or return it where there is no such file."""
        if self._model is None:
            return [b"".join(model)]
        self._model.seek(0)
        self._model.writelines(model)
        self._model.flush()
        self._model.truncate()  # after writing: pages that stay need not be cleared
        return []

    def _send(self, message: tuple[Any, ...], beside: Sequence[Any] = ()) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the missing answer says that the process has ended
            _send(self._process.stdin, message, beside)


def _open_memory() -> IO[bytes] | None:
    """Return a file in memory that the other process opens by its path, or None."""
    try:
        file = os.fdopen(os.memfd_create("model"), "wb")
    except (AttributeError, OSError):
        return None
    return file if os.path.exists(_OPEN_FILE.format(file.fileno())) else None


_kept: dict[
    str, ConfinedProcess
] = {}  # by module, also for later calls: starting one takes as long as many proofs
_finding = Lock()


def _release() -> None:
    """Release the lock in a fork: a thread that holds it is not there."""
    global _finding
    _finding = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release)


def find_process(
    module: str, name: str, *, seconds: float | None = None, idle: float | None = None
) -> ConfinedProcess:
    """Return a module's process, a new one where none goes on; a fork of this process has its own."""
    with _finding:
        if module not in _kept or not _kept[module].goes_on:
            _kept[module] = ConfinedProcess(module, name, seconds=seconds, idle=idle)
        return _kept[module]


def ask_process(
    module: str,
    name: str,
    kind: str,
    *values: Any,
    seconds: float | None = None,
    idle: float | None = None,
    model: Iterable[bytes | memoryview] | None = None,
    beside: Sequence[Any] = (),
) -> tuple[ConfinedProcess, Any, list[bytes]]:
    """Return a module's process, and its answer to a message, as :meth:`ConfinedProcess.ask` does.

    If another thread's model ended the process, a new one is asked.
    """
    while True:
        process = find_process(module, name, seconds=seconds, idle=idle)
        with suppress(GoneError):
            return process, *process.ask(kind, *values, model=model, beside=beside)


def _end(process: subprocess.Popen[bytes], model: IO[bytes] | None, owner: int) -> None:
    if os.getpid() == owner:  # a fork would write the rest of a model into the file that both have
        if model is not None:
            model.close()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def serve(handlers: Mapping[str, Handler], load: Callable[[], object]) -> None:
    """Answer messages on stdin with the handlers of their kinds, on stdout, until stdin ends;
    "close" has no answer.

    The memory of ``load`` and of the interpreter does not count against limits.
    """
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # native code may print anything at any time
    # Read by a thread, so that the end of stdin is seen while a handler computes.
    messages: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_listen, args=(messages,), daemon=True).start()
    held = _measure_data(load)
    while True:
        (kind, limit, seconds, *values), data = messages.get()
        if kind == "close":
            handlers[kind](data, *values)
            continue
        _limit_memory(held, limit)
        _limit_time(seconds)
        _send(out, *_answer(partial(handlers[kind], data, *values)))


def _listen(messages: SimpleQueue[Any]) -> None:
    """Pass messages on, and end this process with the sender, also in the middle of a computation."""
    try:
        while (message := _receive(sys.stdin.buffer)) is not None:
            messages.put(message)
    except MemoryError:  # a message beyond the limit; its rest stays unread
        os._exit(_FULL)
    os._exit(0)


def _answer(compute: Callable[[], tuple[Any, list[Any]]]) -> tuple[tuple[str, Any], list[Any]]:
    try:
        value, beside = compute()
    except MemoryError:
        return ("memory", None), []
    except GraphshareError as error:
        faults = [(fault.message, fault.where) for fault in error.faults]
        return (
            ("memory", None)
            if any(text in str(error) for text in _NO_MEMORY)
            else ("error", faults)
        ), []
    return ("value", value), beside


def _measure_data(load: Callable[[], object]) -> int:
    """Return the bytes that this process takes before there is a model; 0 where they are unknown."""
    load()
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def _limit_memory(held: int, size: int | None) -> None:
    """Let this process take ``size`` bytes beside ``held``; only Linux has such a limit."""
    if held and can_limit_process():
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        # Below 0: none
        bounds = [
            bound for bound in (hard, -1 if size is None else held + size + _BESIDE) if bound >= 0
        ]
        resource.setrlimit(
            resource.RLIMIT_DATA, (min(bounds, default=resource.RLIM_INFINITY), hard)
        )


def _limit_time(seconds: float | None) -> None:
    """Limit the time of computation where possible: native code may not see the end of stdin."""
    if seconds is not None and sys.platform != "win32":
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        # Below 0: none
        bounds = [
            bound for bound in (hard, math.ceil(time.process_time() + seconds) + 1) if bound >= 0
        ]
        resource.setrlimit(resource.RLIMIT_CPU, (min(bounds), hard))


def _send(stream: IO[bytes], message: Any, beside: Sequence[Any] = ()) -> None:
    """Write the length of the message in eight bytes, the message, and the data beside it."""
    head = msgspec.msgpack.encode((message, [len(data) for data in beside]))
    for data in (len(head).to_bytes(_LENGTH, "big"), head, *beside):
        view = memoryview(data)
        while view:
            # Without a buffer write() may take only a part.
            view = view[stream.write(view) :]
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[Any, list[bytes]] | None:
    """Return the next message and the data beside it, None at the end."""
    size = int.from_bytes(stream.read(_LENGTH), "big")
    head = stream.read(size)
    if not size or len(head) < size:
        return None
    message, sizes = msgspec.msgpack.decode(head)
    beside = [stream.read(size) for size in sizes]
    return (message, beside) if [len(data) for data in beside] == sizes else None
