"""A Dask cluster runs the same tasks with the same results; what it cannot do right is refused
before the first task.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

import graphshare as gs
from graphshare.errors import RefusedError, UsageError
from graphshare.fleet.cluster import (
    Installation,
    _first_line,
    _quiet_logs,
    compare_workers,
    describe_installation,
    run_on_cluster,
    work_there,
)
from graphshare.fleet.foreach import FleetOptions, FleetRun, _refuse_settings, foreach
from graphshare.fleet.records import Captured, FleetModel, Killed, Result, SchedulerError, Task
from graphshare.fleet.tasks import Template
from graphshare.fleet.work import any_time_limit, make_unfinished
from tests.processes import ROOT

HERE = Installation("1.0", "3.11", {"numpy": "2.0", "onnx": "1.16"})


def test_workers_of_another_kind_are_named() -> None:
    other = msgspec.structs.replace(
        HERE, graphshare="0.9", python="3.10", packages={"numpy": "1.26", "Pillow": "11"}
    )
    workers = {
        "tcp://a:1": HERE,
        "tcp://b:1": other,
        "tcp://c:1": "No module named 'graphshare'",
        "tcp://d:1": HERE,
    }
    faults = compare_workers(HERE, workers, {"tcp://d:1": 4})
    assert [str(fault) for fault in faults] == [
        "worker tcp://b:1: has graphshare 0.9, but this machine has 1.0",
        "worker tcp://b:1: has Python 3.10, but this machine has 3.11",
        "worker tcp://b:1: has Pillow 11, but this machine has none",
        "worker tcp://b:1: has numpy 1.26, but this machine has 2.0",
        "worker tcp://b:1: does not have onnx, but this machine has 1.16",
        "worker tcp://c:1: cannot run graphshare: No module named 'graphshare'",
        "worker tcp://d:1: has several threads, but a process can run only one model at a time",
    ]
    assert compare_workers(HERE, {"tcp://a:1": HERE}, {"tcp://a:1": 1}) == []
    here = describe_installation()
    assert (here.graphshare, here.python.split(".")) == (
        gs.__version__,
        list(platform.python_version_tuple()[:2]),
    )


@pytest.mark.parametrize(
    ("error", "line"),
    [(OSError("no\nroute"), "no"), (OSError(), "OSError"), (OSError("gone"), "gone")],
)
def test_an_error_of_a_cluster_is_one_line(error: Exception, line: str) -> None:
    assert _first_line(error) == line


def test_the_log_of_a_cluster_is_silent_until_the_run_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("distributed")
    before = logger.level
    with _quiet_logs():
        logger.critical("lost")
    logger.critical("seen")
    assert (caplog.messages, logger.level) == (["seen"], before)


def test_a_worker_that_joins_later_with_other_versions_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    task = Task(FleetModel(str(path), "", 0), (str(path),), (), ("x",), folder=str(tmp_path))
    assert work_there(run, task, describe_installation()).result == "done"
    result = work_there(run, task, msgspec.structs.replace(describe_installation(), python="3.1"))
    assert result.result == "failed"
    assert "but this machine has 3.1" in result.error


def test_local_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        gs.foreach(f"{tmp_path}/*", ["upgrade", "{}"], out="out", scheduler="tcp://127.0.0.1:1")
    assert [fault.where for fault in raised.value.faults] == [f"{tmp_path}/*", "out"]
    assert "is a local path, which the workers of a cluster may not see" in str(raised.value)
    settings = FleetOptions(scheduler="tcp://127.0.0.1:1")
    with pytest.raises(UsageError) as raised:
        _refuse_settings(settings, ["a/*", "s3://bucket/a/*"])
    assert [fault.where for fault in raised.value.faults] == ["a/*"]
    _refuse_settings(settings, ["s3://bucket/a/*"])
    _refuse_settings(msgspec.structs.replace(settings, shared_filesystem=True), ["a/*"])


def test_without_the_package_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphshare.fleet.cluster.find_spec", lambda name: None)
    (tmp_path / "a.json").write_text("{}")
    run = gs.foreach(
        f"{tmp_path}/a.json", ["check", "{}"], scheduler="tcp://127.0.0.1:1", shared_filesystem=True
    )
    with pytest.raises(UsageError) as raised:
        next(run)
    assert "pip install distributed" in raised.value.faults[0].hint


def test_a_time_limit_in_a_thread() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with any_time_limit(0.05):
                while True:
                    os.getpid()
        except RefusedError as error:
            errors.append(error)
        with any_time_limit(10):
            errors.append(ValueError("done in time"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    first, last = errors
    assert str(first).splitlines()[0] == "the time limit of 0.05 s has passed; nothing was written"
    assert str(last) == "done in time"


def run(words: Sequence[str]) -> Captured:
    """Do what the name of the file says, beside the file."""
    path = Path(words[0])
    tries = Path(f"{path}.tries")
    with open(tries, "a", encoding="utf-8") as file:
        file.write("x")
    if path.name.startswith("dies") or (path.name.startswith("once") and tries.stat().st_size == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if path.name.startswith("sleeps"):
        time.sleep(0.2)
    return Captured(0, b"", "")


def prepare() -> None:
    """Workers need nothing."""


def fleet(folder: Path, address: str, manifest: str = "") -> FleetRun:
    settings = FleetOptions(scheduler=address, shared_filesystem=True, manifest=manifest)
    return foreach([f"{folder}/*.json"], Template(("{}",)), run, settings, prepare=prepare)


class Lost(Exception):
    """The error of a task whose workers have all ended."""


class Pretended:
    """A scheduler of one thread without a network; each task ends as ``ends`` says."""

    def __init__(self, *ends: str) -> None:
        self.ends, self.calls = list(ends), list[tuple[object, ...]]()
        self.scheduler, self.loop = SimpleNamespace(address="tcp://u:p@a:1"), None

    def __enter__(self) -> Pretended:
        return self

    def __exit__(self, *error: object) -> None:
        self.calls.append(("left",))

    def wait_for_workers(self, count: int, timeout: float) -> None:
        self.calls.append(("workers", count, timeout))

    def nthreads(self) -> dict[str, int]:
        return {"a": 1, "b": 1}

    def run(self, function: Callable[[], Installation], on_error: str) -> dict[str, Installation]:
        return {"a": function(), "b": function()}

    def submit(
        self, function: object, run: object, task: Task, here: Installation, *, pure: bool
    ) -> SimpleNamespace:
        end = self.ends.pop(0)

        def result() -> Result:
            if end != "done":
                raise {"killed": Lost}.get(end, ValueError)(end)
            return make_unfinished(task, "done", "")

        return SimpleNamespace(
            key=task.words[0],
            status="lost" if end == "gone" else "error",
            result=result,
            release=lambda: None,
        )

    def cancel(self, futures: list[SimpleNamespace], *, force: bool) -> None:
        self.calls.append(("cancel", [future.key for future in futures], force))


class Completed:
    """Futures in the order in which they are submitted."""

    def __init__(self, loop: object) -> None:
        self.futures: list[SimpleNamespace] = []
        self.add = self.futures.append

    def __iter__(self) -> Iterator[SimpleNamespace]:
        while self.futures:
            yield self.futures.pop(0)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pretended]:
    def start(*ends: str) -> Pretended:
        client = Pretended(*ends)
        monkeypatch.setitem(
            sys.modules, "distributed", SimpleNamespace(as_completed=Completed, KilledWorker=Lost)
        )
        monkeypatch.setattr("graphshare.fleet.cluster._connect", lambda address: client)
        return client

    return start


def make_tasks(count: int, made: list[int]) -> Iterator[Task]:
    for i in range(count):
        made.append(i)
        yield Task(FleetModel(f"m{i}", "", 0), (f"t{i}",), (), ("x",))


def test_a_scheduler_has_three_tasks_for_each_thread(pretend: Callable[..., Pretended]) -> None:
    client, made, counts = pretend("done", "killed", "wrong", *["done"] * 6), list[int](), []
    outcomes = []
    for task, outcome in run_on_cluster(make_tasks(9, made), run, "tcp://a:1"):
        outcomes.append(
            (task.words[0], outcome.reason if isinstance(outcome, Killed) else outcome.error)
        )
        counts.append(len(made))
    assert counts == [7, 8, 9, 9, 9, 9, 9, 9, 9]  # two threads
    ends = [
        "",
        "the worker process ended: out of memory, or a crash of native code",
        "ValueError: wrong",
        *[""] * 6,
    ]
    assert outcomes == [(f"t{i}", end) for i, end in enumerate(ends)]
    assert client.calls == [("workers", 1, 20), ("cancel", [], True), ("left",)]


def test_a_scheduler_that_is_gone_ends_the_run(pretend: Callable[..., Pretended]) -> None:
    client = pretend("gone", "done")
    with pytest.raises(SchedulerError) as raised:
        list(run_on_cluster(make_tasks(2, []), run, "tcp://u:p@a:1"))
    assert str(raised.value).splitlines()[0] == "tcp://a:1: the scheduler is gone"
    assert client.calls[1:] == [("cancel", ["t1"], True), ("left",)]


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[str]:
    """The address of a scheduler with worker processes, of which it gives up none before its task."""
    distributed = pytest.importorskip("distributed")
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=50,
            host="127.0.0.1",
        ) as found,
    ):
        yield found.scheduler_address


@pytest.mark.large
def test_a_cluster_gives_the_same_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    models, outputs = tmp_path / "models", []
    models.mkdir()
    for i in range(4):
        for path in (ROOT / "fixtures").glob("*-*.*"):
            if path.suffix in (".json", ".params"):
                (models / f"{i}{path.name}").write_bytes(path.read_bytes())
    with cluster(1) as address:
        command = [
            sys.executable,
            "-m",
            "distributed.cli.dask_worker",
            address,
            "--nthreads",
            "1",
            "--no-dashboard",
        ]
        # Joined by address, and it starts elsewhere
        joined = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=ROOT)
        try:
            _wait_for_workers(address, 2)
            for out, settings in (
                ("here", {}),
                ("there", {"scheduler": address, "shared_filesystem": True}),
            ):
                found = list(
                    gs.foreach(
                        "models/*",
                        ["duplicate", "{}", "--prefix", "b-"],
                        out=out,
                        time_limit=60,
                        **settings,
                    )
                )
                assert len(found) == 12
                assert all(found)
                outputs.append(
                    {path.name: path.read_bytes() for path in (tmp_path / out).iterdir()}
                )
            assert outputs[0] == outputs[1]
            for names in (("a", "dies", "z"), ("once",)):
                folder = tmp_path / names[0]
                folder.mkdir()
                for name in names:
                    (folder / f"{name}.json").write_text("{}")
                results = {
                    Path(r.source).stem: r.result
                    for r in fleet(folder, address, str(folder / "run.jsonl"))
                }
                assert results == {name: "failed" if name == "dies" else "done" for name in names}
                assert '"result":"killed"' in (folder / "run.jsonl").read_text()
        finally:
            joined.send_signal(signal.SIGINT)
            joined.wait(30)


def _check_window(folder: Path, address: str) -> None:
    """No more tasks are submitted than the window of one worker has, however many there are."""
    made: list[int] = []

    def tasks() -> Iterator[Task]:
        for i in range(1000):
            made.append(i)
            yield Task(
                FleetModel(str(folder / "sleeps00.json"), "", 0),
                (str(folder / "sleeps00.json"),),
                (),
                ("x",),
            )

    outcomes = run_on_cluster(tasks(), run, address)
    assert isinstance(next(outcomes)[1], Result)
    assert len(made) <= 4
    outcomes.close()


def _wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=30)


@pytest.mark.large
def test_a_run_whose_scheduler_ends_goes_on_with_another_one(tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / f"sleeps{i:02}.json").write_text("{}")
    manifest = str(tmp_path / "run.jsonl")
    first = []
    with pytest.raises(SchedulerError, match="the scheduler is gone"):  # noqa: PT012
        with cluster(1) as address:
            _check_window(tmp_path, address)
            results = fleet(tmp_path, address, manifest)
            first += [next(results), next(results)]
        first += list(results)
    results.close()
    with cluster(1) as address:
        second = list(fleet(tmp_path, address, manifest))
    assert len(second) == 20
    assert all(second)
    assert {result.source for result in second if result.was_skipped} == {
        result.source for result in first
    }
    with pytest.raises(SchedulerError, match="cannot be reached"):
        next(fleet(tmp_path, "nowhere:xyz", manifest))
