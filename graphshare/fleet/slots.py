"""Worker processes of this machine: N slots, each with a single process at a time, so that a crash ends one task only.

A slot and its process send each other tasks and results through a pipe. An executor of concurrent.futures has threads and
queues between them, which take 0.3 ms for each task and leave the worker idle for as long.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from graphshare.errors import Fault, UsageError
from graphshare.fleet.records import Killed, Result, Run, Task
from graphshare.fleet.work import work

_GRACE = 5.0  # seconds after the time limit until a worker that does not answer is ended
_PATIENCE = 3.0  # seconds for workers to clean up after an interrupt
_NAME = "graphshare worker"  # of worker processes
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
        self._process = context.Process(target=_serve, args=(theirs, *self._settings), name=_NAME)
        self._process.start()
        theirs.close()  # the end of the process is then the end of what it sends

    def submit(self, task: Task) -> Connection[Task, Result | None]:
        """Run a task, and return where its result comes from; the process begins with the first one."""
        if self._process is None:
            self._begin()
        with contextlib.suppress(OSError):  # the process is gone, which receive() reports
            self.connection.send(task)
        return self.connection

    def receive(self) -> Result | Killed | None:
        """Return the message of the process: a result, or None when it is ready.

        Raises:
            UsageError: it has ended with an error before it was ready, as any other one would.
        """
        try:
            result: Result | None = self.connection.recv()
        except (EOFError, OSError):
            if (self.close() or 0) > 0 and self.begun is None:
                raise refuse_import() from None
            return Killed(_GONE)
        if result is None:
            self.begun = time.monotonic()
        return result

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self._process is not None and self._process.pid is not None:
            with contextlib.suppress(OSError):  # it is gone
                os.kill(self._process.pid, number)

    def close(self) -> int | None:
        """End the process, after its task, and return its exit code, below 0 for a signal; None without a process."""
        process, self._process = self._process, None
        if process is None:
            return None
        self.connection.close()
        process.join()
        return process.exitcode


def refuse_import() -> UsageError:
    """Return the error of a script whose import, which is how worker processes start, does not come to its end."""
    hint = 'put the code of the script under `if __name__ == "__main__":`, and run it from a file'
    return UsageError(Fault("worker processes import the script that calls foreach, and it cannot be imported", hint=hint))


def refuse_in_import() -> None:
    """Refuse to run where worker processes could not start; one of ours that imports its script ends without a word.

    Raises:
        UsageError: this process still imports the script that it was started for, or the script is stdin.
    """
    process, main = multiprocessing.current_process(), sys.modules.get("__main__")
    if getattr(process, "_inheriting", False):  # what multiprocessing itself looks at when a process is started
        if process.name == _NAME:
            os._exit(1)
        raise refuse_import()
    if getattr(main, "__file__", None) == "<stdin>":
        raise refuse_import()


class _Running:
    """The tasks that run, each with its slot and the time at which it was submitted, by where its result comes from.

    ``slots`` are all slots, those without a task too.
    """

    def __init__(self, slots: list[Slot]) -> None:
        self._slots, self._owner = slots, os.getpid()
        self.tasks: dict[Connection[Task, Result | None], tuple[Slot, Task, float]] = {}

    def add(self, slot: Slot, task: Task) -> None:
        self.tasks[slot.submit(task)] = slot, task, time.monotonic()

    def list_ready(self, seconds: float | None) -> list[Connection[Task, Result | None]]:
        """Return the connections that have a message, at once or within ``seconds``; None waits without a limit."""
        ready = wait(list(self.tasks), seconds)
        # wait() has an order of its own.
        return [connection for connection in self.tasks if connection in ready]

    def wait(self) -> Iterator[tuple[Slot, Task, Result | Killed]]:
        """Yield the tasks that have ended; those with a time limit are looked at when it has passed."""
        now = time.monotonic()
        left = [_time_left(slot, task, submitted, now) for slot, task, submitted in self.tasks.values()]
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
                slot.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
                slot.close()
                reason = f"the time limit of {task.time_limit:g} s has passed, and the worker process was ended"
                yield slot, task, Killed(reason, timed_out=True)

    def close(self) -> None:
        """End all processes; those that still work, after an error or interrupt, clean up first."""
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
                with contextlib.suppress(UsageError):
                    if entry[0].receive() is None:
                        self.tasks[connection] = entry
        for slot, _, _ in self.tasks.values():
            slot.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        self.tasks.clear()
        for slot in self._slots:
            slot.close()


def _time_left(slot: Slot, task: Task, submitted: float, now: float) -> float | None:
    """Return the seconds until a worker is ended, None without a limit; the start of its process does not count."""
    if task.time_limit is None:
        return None
    begun = max(submitted, slot.begun if slot.begun is not None else now)
    return begun + task.time_limit + _GRACE - now


def _share_cores(jobs: int) -> int:
    """Return the threads of each worker: together they have as many for matrix products as the machine has cores."""
    return max(1, (os.cpu_count() or 1) // jobs)


def run_in_slots(
    tasks: Iterator[Task], run: Run, prepare: Callable[[], None], jobs: int
) -> Generator[tuple[Task, Result | Killed], None, None]:
    """Run tasks in ``jobs`` processes and yield each with its outcome, as they end; one more than ``jobs`` is in memory."""
    threads = _share_cores(jobs)
    slots = [Slot(run, prepare, threads) for _ in range(jobs)]
    idle, running, following = slots.copy(), _Running(slots), None
    atexit.register(running.close)  # multiprocessing would wait for the processes, which wait for tasks
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
        running.close()
        atexit.unregister(running.close)


def _serve(connection: Connection[Result | None, Task], run: Run, prepare: Callable[[], None], threads: int) -> None:
    """Run the tasks that come, one by one, in a worker process; it ends when there are no more."""
    _initialize(prepare, threads)
    with contextlib.suppress(EOFError):
        # The process is ready, and its time limits count from here.
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
