"""Worker processes of this machine: N slots, each an executor with a single process, so that a crash ends one task only."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial

from graphshare.fleet.records import Killed, Result, Run, Task
from graphshare.fleet.work import work

_GRACE = 5.0  # seconds after the time limit until a worker that does not answer is ended
_PATIENCE = 3.0  # seconds for workers to clean up after an interrupt
_GONE = "the worker process ended: out of memory, or a crash of native code"


class Slot:
    """One worker process at a time, which imports once and runs one task after the other."""

    def __init__(self, run: Run, prepare: Callable[[], None], threads: int) -> None:
        self._work, self._initialize = partial(work, run), partial(_initialize, prepare, threads)
        self._executor: ProcessPoolExecutor | None = None
        self._process: Future[int] | None = None
        self.begun: float | None = None  # when the process was ready

    def _note_begin(self, process: Future[int]) -> None:
        self.begun = time.monotonic()

    def submit(self, task: Task) -> Future[Result]:
        """Run a task; the process begins with the first one."""
        if self._executor is None:
            # Spawned, not forked: this process has threads, and a copy of its memory would be the worker's for good.
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(1, mp_context=context, initializer=self._initialize)
            self._process = self._executor.submit(os.getpid)
            self.begun = None
            self._process.add_done_callback(self._note_begin)
        return self._executor.submit(self._work, task)

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self._process is not None:
            with contextlib.suppress(Exception):  # it did not begin, or it is gone
                os.kill(self._process.result(timeout=_PATIENCE), number)

    def close(self) -> None:
        """End the process, after its task."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = self._process = None


class _Running:
    """The tasks that run, each with its slot and the time at which it was submitted."""

    def __init__(self) -> None:
        self.tasks: dict[Future[Result], tuple[Slot, Task, float]] = {}

    def add(self, slot: Slot, task: Task) -> None:
        self.tasks[slot.submit(task)] = slot, task, time.monotonic()

    def wait(self) -> Iterator[tuple[Slot, Task, Result | Killed]]:
        """Yield what has ended, if anything; tasks with a time limit are looked at when it has passed."""
        now = time.monotonic()
        left = [_time_left(slot, task, submitted, now) for slot, task, submitted in self.tasks.values()]
        first = min((seconds for seconds in left if seconds is not None), default=None)
        done, _ = wait(self.tasks, None if first is None else max(0.0, first), FIRST_COMPLETED)
        for future in done:
            slot, task, _ = self.tasks.pop(future)
            yield slot, task, _outcome(future, slot)
        now = time.monotonic()
        for future, (slot, task, submitted) in list(self.tasks.items()):
            left_for_task = _time_left(slot, task, submitted, now)
            if left_for_task is not None and left_for_task <= 0 and not future.done():
                del self.tasks[future]
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


def _outcome(future: Future[Result], slot: Slot) -> Result | Killed:
    try:
        return future.result()
    except BrokenProcessPool:
        slot.close()
        return Killed(_GONE)


def run_in_slots(
    tasks: Iterator[Task], run: Run, prepare: Callable[[], None], jobs: int
) -> Generator[tuple[Task, Result | Killed], None, None]:
    """Run tasks in ``jobs`` processes and yield each with its outcome, as they end; never more than ``jobs`` are in memory."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    idle = [Slot(run, prepare, threads) for _ in range(jobs)]
    running = _Running()
    try:
        while True:
            while idle and (task := next(tasks, None)) is not None:
                running.add(idle.pop(), task)
            if not running.tasks:
                return
            for slot, task, outcome in running.wait():
                idle.append(slot)
                yield task, outcome
    finally:
        _close([*idle, *(slot for slot, _, _ in running.tasks.values())], running.tasks)


def _close(slots: list[Slot], running: dict[Future[Result], tuple[Slot, Task, float]]) -> None:
    """End all processes; those that still work, after an error or interrupt, clean up first."""
    for slot, _, _ in running.values():
        slot.signal(signal.SIGTERM)
    _, late = wait(running, _PATIENCE)
    for future in late:
        running[future][0].signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    for slot in slots:
        slot.close()


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
