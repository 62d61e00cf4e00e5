"""Worker processes of this machine, one in each slot: a crash ends only one task."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from multiprocessing.connection import Connection, wait

from graphshare.errors import RefusedError
from graphshare.fleet.records import Killed, Result, Run, Task
from graphshare.fleet.work import work
from graphshare.resources import THREADS
from graphshare.worker_process import KILL, EndedError, Worker

_GRACE = 5.0  # seconds after the time limit until a worker that does not answer is ended
_PATIENCE = 3.0  # seconds for workers to clean up after an interrupt
_GONE = "the worker process ended: out of memory, or a crash of native code"


class Slot(Worker):
    """One worker process at a time; it imports once and runs tasks in sequence."""

    def __init__(self, run: Run, prepare: Callable[[], None], threads: int) -> None:
        super().__init__(partial(work, run), partial(_initialize, prepare, threads))

    def receive(self) -> Result | Killed | None:
        """Return a result, None when the process is ready, or Killed if it has ended.

        Raises:
            RefusedError: the process ended with an error before it was ready; every other process
                would, too.
        """
        try:
            result: Result | None = super().receive()
        except EndedError:
            return Killed(_GONE)
        return result


class _Running:
    """The running tasks, with slot and time of submission, by the connection that brings the
    result.

    ``slots`` includes those without a task.
    """

    def __init__(self, slots: list[Slot]) -> None:
        self._slots, self._owner = slots, os.getpid()
        self.tasks: dict[Connection[Task, Result | None], tuple[Slot, Task, float]] = {}

    def add(self, slot: Slot, task: Task) -> None:
        self.tasks[slot.submit(task)] = slot, task, time.monotonic()

    def list_ready(self, seconds: float | None) -> list[Connection[Task, Result | None]]:
        """Return connections that have a message within ``seconds``; None waits without a limit."""
        ready = wait(list(self.tasks), seconds)
        # wait() has an order of its own.
        return [connection for connection in self.tasks if connection in ready]

    def wait(self) -> Iterator[tuple[Slot, Task, Result | Killed]]:
        """Yield ended tasks; time limits are checked when they have passed."""
        now = time.monotonic()
        left = [
            _time_left(slot, task, submitted, now) for slot, task, submitted in self.tasks.values()
        ]
        first = min((seconds for seconds in left if seconds is not None), default=None)
        for connection in self.list_ready(None if first is None else max(0.0, first)):
            entry = self.tasks.pop(connection)
            outcome = entry[0].receive()
            if outcome is None:
                self.tasks[connection] = entry
            else:
                yield entry[0], entry[1], outcome
        now = time.monotonic()
        for connection, (slot, task, submitted) in list(self.tasks.items()):
            left_for_task = _time_left(slot, task, submitted, now)
            # A result that arrived in the meantime counts.
            if left_for_task is not None and left_for_task <= 0 and not connection.poll():
                del self.tasks[connection]
                slot.signal(KILL)
                slot.close()
                reason = f"the time limit of {task.time_limit:g} s has passed, and the worker process was ended"
                yield slot, task, Killed(reason, timed_out=True)

    def close(self) -> None:
        """End all processes; those that still work clean up first."""
        if os.getpid() != self._owner:  # a copy of the process that started them
            return
        for slot, _, _ in self.tasks.values():
            # SIGTERM is an exception in a worker: it removes half-written files.
            slot.signal(signal.SIGTERM)
        late = time.monotonic() + _PATIENCE
        while self.tasks:
            ready = self.list_ready(max(0.0, late - time.monotonic()))
            if not ready:
                break
            for connection in ready:
                entry = self.tasks.pop(connection)
                with contextlib.suppress(RefusedError):
                    if entry[0].receive() is None:
                        self.tasks[connection] = entry
        for slot, _, _ in self.tasks.values():
            slot.signal(KILL)
        self.tasks.clear()
        for slot in self._slots:
            slot.close()


def _time_left(slot: Slot, task: Task, submitted: float, now: float) -> float | None:
    """Return seconds, in which the start of the process does not count; None without a limit."""
    if task.time_limit is None:
        return None
    begun = max(submitted, slot.begun if slot.begun is not None else now)
    return begun + task.time_limit + _GRACE - now


def _share_cores(jobs: int) -> int:
    """All workers together get one thread per core for matrix products."""
    return max(1, (os.cpu_count() or 1) // jobs)


def run_in_slots(
    tasks: Iterator[Task], run: Run, prepare: Callable[[], None], jobs: int
) -> Generator[tuple[Task, Result | Killed], None, None]:
    """Run tasks in ``jobs`` processes and yield each with its outcome as it ends.

    ``jobs`` + 1 tasks are in memory.
    """
    threads = _share_cores(jobs)
    slots = [Slot(run, prepare, threads) for _ in range(jobs)]
    idle, running, following = slots.copy(), _Running(slots), None
    atexit.register(running.close)  # workers ended by this process would leave half-written files
    try:
        while True:
            if following is None:
                # Made while the workers run: none waits for it
                following = next(tasks, None)
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
        running.close()
        atexit.unregister(running.close)


def _initialize(prepare: Callable[[], None], threads: int) -> None:
    """Libraries of linear algebra read their number of threads when numpy is imported; no command
    has imported it yet.
    """
    for name in THREADS:
        os.environ.setdefault(name, str(threads))
    prepare()
