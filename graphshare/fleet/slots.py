"""Worker processes of this machine: N slots, each with a single process at a time, so that a crash ends one task only.

A slot and its process send each other tasks and results through a pipe. An executor of concurrent.futures has threads and
queues between them, which take 0.3 ms for each task and leave the worker idle for as long.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from graphshare.fleet.records import Killed, Result, Run, Task
from graphshare.fleet.work import work

_GRACE = 5.0  # seconds after the time limit until a worker that does not answer is ended
_PATIENCE = 3.0  # seconds for workers to clean up after an interrupt
_GONE = "the worker process ended: out of memory, or a crash of native code"


class Slot:
    """One worker process at a time, which imports once and runs one task after the other."""

    def __init__(self, run: Run, prepare: Callable[[], None], threads: int) -> None:
        self._settings = run, prepare, threads
        self._process: SpawnProcess | None = None
        self.begun: float | None = None  # when the process was ready

    def _begin(self) -> None:
        # Spawned, not forked: this process has threads, and a copy of its memory would be the worker's for good.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.begun = None
        self._process = context.Process(target=_serve, args=(theirs, *self._settings))
        self._process.start()
        theirs.close()  # the end of the process is then the end of what it sends

    def submit(self, task: Task) -> Connection[Task, Result | None]:
        """Run a task, and return where its result comes from; the process begins with the first one."""
        if self._process is None:
            self._begin()
        with contextlib.suppress(OSError):  # the process is gone: so says what comes from it
            self.connection.send(task)
        return self.connection

    def receive(self) -> Result | Killed | None:
        """Return what the process has sent: a result, or None for the news that it is ready."""
        try:
            result: Result | None = self.connection.recv()
        except (EOFError, OSError):
            self.close()
            return Killed(_GONE)
        if result is None:
            self.begun = time.monotonic()
        return result

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self._process is not None and self._process.pid is not None:
            with contextlib.suppress(OSError):  # it is gone
                os.kill(self._process.pid, number)

    def close(self) -> None:
        """End the process, after its task."""
        if self._process is not None:
            self.connection.close()
            self._process.join()
        self._process = None


class _Running:
    """The tasks that run, each with its slot and the time at which it was submitted, by where its result comes from."""

    def __init__(self) -> None:
        self.tasks: dict[Connection[Task, Result | None], tuple[Slot, Task, float]] = {}

    def add(self, slot: Slot, task: Task) -> None:
        self.tasks[slot.submit(task)] = slot, task, time.monotonic()

    def list_ready(self, seconds: float | None) -> list[Connection[Task, Result | None]]:
        """Return those from which something can be received, at once or within ``seconds``; None waits as long as it takes."""
        ready = wait(list(self.tasks), seconds)
        return [connection for connection in self.tasks if connection in ready]

    def wait(self) -> Iterator[tuple[Slot, Task, Result | Killed]]:
        """Yield what has ended, if anything; tasks with a time limit are looked at when it has passed."""
        now = time.monotonic()
        left = [_time_left(slot, task, submitted, now) for slot, task, submitted in self.tasks.values()]
        first = min((seconds for seconds in left if seconds is not None), default=None)
        for connection in self.list_ready(None if first is None else max(0.0, first)):
            slot, task, _ = self.tasks[connection]
            outcome = slot.receive()
            if outcome is not None:
                del self.tasks[connection]
                yield slot, task, outcome
        now = time.monotonic()
        for connection, (slot, task, submitted) in list(self.tasks.items()):
            left_for_task = _time_left(slot, task, submitted, now)
            if left_for_task is not None and left_for_task <= 0 and not connection.poll():
                del self.tasks[connection]
                slot.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
                slot.close()
                reason = f"the time limit of {task.time_limit:g} s has passed, and the worker process was ended"
                yield slot, task, Killed(reason, timed_out=True)


def _time_left(slot: Slot, task: Task, submitted: float, now: float) -> float | None:
    """Return the seconds until a worker is ended, None without a limit; the start of its process does not count."""
    if task.time_limit is None:
        return None
    begun = max(submitted, slot.begun if slot.begun is not None else now)
    return begun + task.time_limit + _GRACE - now


def run_in_slots(
    tasks: Iterator[Task], run: Run, prepare: Callable[[], None], jobs: int
) -> Generator[tuple[Task, Result | Killed], None, None]:
    """Run tasks in ``jobs`` processes and yield each with its outcome, as they end; one more than ``jobs`` is in memory."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    idle = [Slot(run, prepare, threads) for _ in range(jobs)]
    running, following = _Running(), None
    try:
        while True:
            if following is None:
                following = next(tasks, None)  # made while the workers work: none of them waits for it
            if idle and following is not None:
                running.add(idle.pop(), following)
                following = None
                continue
            if not running.tasks:
                return
            for slot, task, outcome in running.wait():
                if following is None:
                    idle.append(slot)
                else:
                    running.add(slot, following)
                    following = None
                yield task, outcome
    finally:
        _close([*idle, *(slot for slot, _, _ in running.tasks.values())], running)


def _close(slots: list[Slot], running: _Running) -> None:
    """End all processes; those that still work, after an error or interrupt, clean up first."""
    for slot, _, _ in running.tasks.values():
        slot.signal(signal.SIGTERM)
    late = time.monotonic() + _PATIENCE
    while running.tasks:
        ready = running.list_ready(max(0.0, late - time.monotonic()))
        if not ready:
            break
        for connection in ready:
            slot, _, _ = running.tasks[connection]
            if slot.receive() is not None:
                del running.tasks[connection]
    for slot, _, _ in running.tasks.values():
        slot.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    for slot in slots:
        slot.close()


def _serve(connection: Connection[Result | None, Task], run: Run, prepare: Callable[[], None], threads: int) -> None:
    """Run the tasks that come, one by one, in a worker process; it ends when there are no more."""
    _initialize(prepare, threads)
    with contextlib.suppress(EOFError):
        connection.send(None)
        while True:
            connection.send(work(run, connection.recv()))


def _initialize(prepare: Callable[[], None], threads: int) -> None:
    """Prepare a worker process: it ends with its parent, in whatever way that ends, and leaves Ctrl-C to it.

    Libraries of linear algebra read their number of threads when numpy is imported, which no command has done yet.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
