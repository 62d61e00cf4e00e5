"""Processes that each do pieces of work in sequence, so that a crash ends one alone.

An executor of concurrent.futures has threads and queues between the two. They take 0.3 ms for each
piece and leave the other process idle for as long.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, TypeVar

from graphshare.errors import Fault, RefusedError
from graphshare.python_process import start_python

P = TypeVar("P")
R = TypeVar("R")
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


class EndedError(Exception):
    """The process has ended before its work: out of memory, or a crash of native code."""


class Worker:
    """A process that does one piece of work after the other; it begins with the first.

    ``work`` takes a piece and returns the result, ``start`` is called once before: functions of
    modules, or partials of these. ``begun`` is when the process was ready.
    """

    def __init__(self, work: Callable[[Any], object], start: Callable[[], object] = object) -> None:
        self._settings = work, start
        self._process: subprocess.Popen[bytes] | None = None
        self.begun: float | None = None

    def _begin(self) -> None:
        # Spawned, not forked: this process has threads, and the other would keep a copy of its
        # memory for good.
        connection, theirs = Pipe()
        self.connection: Connection[Any, Any] = connection
        self.begun = None
        with theirs:  # closed here: the end of the process then ends its messages
            number = theirs.fileno()
            self._process = start_python(
                __name__,
                "serve",
                str(number),
                inherited=[number],
                stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        self._send(self._settings)

    def _send(self, message: object) -> None:
        with contextlib.suppress(OSError):  # the process is gone; receive() reports it
            self.connection.send(message)

    def submit(self, piece: object) -> Connection[Any, Any]:
        if self._process is None:
            self._begin()
        self._send(piece)
        return self.connection

    def receive(self) -> Any:
        """Return a result, or None when the process is ready. An exception of ``work`` is raised
        here.

        Raises:
            EndedError: it has ended.
            RefusedError: it has ended with an error before it was ready, as any other one would.
        """
        try:
            result, error = self.connection.recv()
        except (EOFError, OSError):
            code = self.close()
            if code > 0 and self.begun is None:
                message = f"a worker process ended before it was ready (exit code {code})"
                raise RefusedError(Fault(message, hint="do the work in one process")) from None
            raise EndedError from None
        if error is not None:
            raise error
        if result is None:
            self.begun = time.monotonic()
        return result

    def signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):  # it is gone
                self._process.send_signal(number)

    def close(self) -> int:
        """End the process after its work; return its exit code, below 0 for a signal, 0 without a
        process.
        """
        process, self._process = self._process, None
        if process is None:
            return 0
        self.connection.close()
        code = process.wait()
        assert process.stdin is not None
        process.stdin.close()  # not before: the end of stdin ends a process in the middle of its work
        return code


def map_in_workers(work: Callable[[P], R], pieces: Sequence[P], jobs: int) -> Iterator[R]:
    """Yield the results of ``work`` (never None) for ``pieces`` in their order, from ``jobs``
    processes.

    Raises:
        EndedError: a process has ended.
        RefusedError: none can be started.
    """
    workers = [Worker(work) for _ in range(jobs)]
    running: dict[Any, tuple[Worker, int]] = {}
    results: dict[int, R] = {}
    idle, following = workers.copy(), 0
    try:
        for number in range(len(pieces)):
            while number not in results:
                while idle and following < len(pieces):
                    worker = idle.pop()
                    running[worker.submit(pieces[following])] = worker, following
                    following += 1
                for connection in wait([*running]):
                    worker, place = running[connection]
                    result = worker.receive()
                    if result is not None:
                        results[place] = result
                        del running[connection]
                        idle.append(worker)
            yield results.pop(number)
    finally:
        for worker, _ in running.values():
            worker.signal(KILL)
        for worker in workers:
            worker.close()


def serve(number: str) -> None:
    """Do the work that comes, piece by piece, in the other process.

    ``number`` is the file descriptor of the connection, on Windows its handle. The process ends
    with its parent, even if that is killed, and leaves Ctrl-C to it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stdin = os.dup(0)  # what starts may replace it
    threading.Thread(target=_end_with_parent, args=(stdin,), daemon=True).start()
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection  # other systems have none

        connection = PipeConnection(int(number))
    else:
        connection: Connection[Any, Any] = Connection(int(number))
    with contextlib.suppress(EOFError):
        work, start = connection.recv()
        start()
        connection.send((None, None))  # it is ready
        while True:
            piece = connection.recv()
            try:
                connection.send((work(piece), None))
            except Exception as error:
                connection.send((None, error))


def _end_with_parent(stdin: int) -> None:
    """End this process when its stdin ends: only the parent holds it open."""
    os.read(stdin, 1)
    os._exit(1)
