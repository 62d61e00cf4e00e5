"""Run tasks on a Dask cluster, with the same results as in worker processes of this machine.

The scheduler holds a window of tasks. Every worker is first compared with this machine. Dask
repeats tasks of a worker that disappears; a task that ends several workers counts as one that
killed its worker.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Generator, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from platform import node as host_name
from typing import TYPE_CHECKING

import msgspec

from graphshare.errors import Fault, UsageError, install_command
from graphshare.fleet.records import Killed, Result, Run, SchedulerError, Task
from graphshare.fleet.work import make_unfinished, work
from graphshare.text.markup import quote_shell
from graphshare.text.urls import redact
from graphshare.version import __version__

if TYPE_CHECKING:
    from distributed import Client, Future

_PER_THREAD = 3  # tasks of the window: one runs, the others wait at the worker
_CONNECT = 10  # seconds to reach a scheduler
_PATIENCE = 20  # seconds until there is a worker
_SILENT = logging.CRITICAL + 1  # a level above every message's
_EXTRAS = ("google-re2", "numpy", "onnx", "onnxruntime", "Pillow", "safetensors", "fsspec")


class Installation(msgspec.Struct, frozen=True):
    """The versions of graphshare, of Python (major and minor) and of optional packages."""

    graphshare: str
    python: str
    packages: dict[str, str]


def describe_installation() -> Installation:
    """Return the software of this process."""
    packages = {}
    for name in _EXTRAS:
        with contextlib.suppress(PackageNotFoundError):
            packages[name] = version(name)
    return Installation(__version__, f"{sys.version_info[0]}.{sys.version_info[1]}", packages)


_describe_once = cache(describe_installation)


def compare_workers(
    here: Installation, workers: Mapping[str, Installation | str], threads: Mapping[str, int]
) -> list[Fault]:
    """Return the reasons why workers may compute different results; a text in place of an
    installation is an error.
    """
    faults = []
    for address, there in workers.items():
        where = f"worker {redact(address)}"
        if isinstance(there, str):
            hint = f"install graphshare {here.graphshare} there"
            faults.append(Fault(f"cannot run graphshare: {there}", where=where, hint=hint))
            continue
        if threads.get(address, 1) != 1:
            hint = "start it as `dask worker --nthreads 1`, with --nworkers for several models at a time"
            faults.append(
                Fault(
                    "has several threads, but a process can run only one model at a time",
                    where=where,
                    hint=hint,
                )
            )
        pairs = [
            ("graphshare", here.graphshare, there.graphshare),
            ("Python", here.python, there.python),
        ]
        names = sorted({*here.packages, *there.packages})
        pairs += [
            (name, here.packages.get(name, ""), there.packages.get(name, "")) for name in names
        ]
        for name, mine, other in pairs:
            if mine != other:
                message = f"has {name} {other}" if other else f"does not have {name}"
                hint = "install one version of it on all workers"
                faults.append(
                    Fault(
                        f"{message}, but this machine has {mine or 'none'}", where=where, hint=hint
                    )
                )
    return faults


def run_on_cluster(
    tasks: Iterator[Task], run: Run, address: str
) -> Generator[tuple[Task, Result | Killed], None, None]:
    """Run tasks on the workers of a scheduler and yield each with its outcome, as they end.

    Raises:
        SchedulerError: the scheduler cannot be reached or is gone, it has no workers, or their
            software differs.
    """
    with _quiet_logs(), _connect(address) as client:
        from distributed import as_completed  # takes a second to import

        window = _PER_THREAD * _check_workers(client)
        here = describe_installation()
        running: dict[str, Task] = {}
        futures = as_completed(loop=client.loop)

        def submit() -> None:
            while len(running) < window and (task := next(tasks, None)) is not None:
                # Dask would answer a pure call with equal arguments from an earlier result.
                future = client.submit(work_there, run, task, here, pure=False)
                running[future.key] = task
                futures.add(future)

        try:
            submit()
            for future in futures:
                task = running.pop(future.key)
                outcome = _outcome(future, task, address)
                future.release()
                submit()
                yield task, outcome
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                client.cancel(list(futures.futures), force=True)


def work_there(run: Run, task: Task, here: Installation) -> Result:
    """Run one task in a cluster's worker, from the user's folder; reject a worker that joined later
    with other versions.
    """
    faults = compare_workers(here, {host_name(): _describe_once()}, {})
    if faults:
        return make_unfinished(task, "failed", "; ".join(map(str, faults)))
    before = os.getcwd()
    try:
        if task.folder:
            os.chdir(task.folder)
    except OSError as error:
        return make_unfinished(
            task, "failed", f"the worker does not see the folder {task.folder}: {error.strerror}"
        )
    try:
        return work(run, task)
    finally:
        os.chdir(before)


def _outcome(future: Future, task: Task, address: str) -> Result | Killed:
    """Raises SchedulerError."""
    from distributed import KilledWorker  # takes a second to import

    try:
        result: Result = future.result()
        return result
    except KilledWorker:
        return Killed("the worker process ended: out of memory, or a crash of native code")
    except Exception as error:
        if future.status in ("cancelled", "lost"):
            hint = "run it again with the same `manifest` to go on"
            raise SchedulerError(
                Fault("the scheduler is gone", where=redact(address), hint=hint)
            ) from error
        return make_unfinished(task, "failed", f"{type(error).__name__}: {error}")


def _connect(address: str) -> Client:
    """Raises SchedulerError, UsageError without the package."""
    if find_spec("distributed") is None:
        message = "`scheduler` needs the package distributed, which is not installed"
        raise UsageError(Fault(message, hint=install_command("dask")))
    from distributed import Client  # takes a second to import

    try:
        # The default client belongs to the program that calls foreach.
        return Client(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        hint = "name a Dask scheduler as tcp://HOST:8786; `dask scheduler` starts one"
        raise SchedulerError(
            Fault(f"cannot be reached: {_first_line(error)}", where=redact(address), hint=hint)
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _check_workers(client: Client) -> int:
    """Return the threads of all workers. Raises SchedulerError with all faults."""
    where = redact(client.scheduler.address)
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)  # a worker that has ended starts again
    except TimeoutError:
        hint = f"start some: `dask worker {quote_shell(where)} --nthreads 1 --nworkers 4`"
        raise SchedulerError(Fault("has no workers", where=where, hint=hint)) from None
    threads = client.nthreads()
    # A broken worker must not hide the answers of the others.
    answers = client.run(describe_installation, on_error="return")
    workers = {
        name: there if isinstance(there, Installation) else _first_line(there)
        for name, there in answers.items()
    }
    faults = compare_workers(describe_installation(), workers, threads)
    if faults:
        raise SchedulerError(faults)
    return sum(threads.values())


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """The errors of distributed are reported as ours."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(_SILENT)
    try:
        yield
    finally:
        logger.setLevel(before)
