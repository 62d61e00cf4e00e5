"""Worker processes: a model that kills its worker, hangs or takes too much memory ends no other model."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from graphshare.errors import Fault, GraphshareError, RefusedError
from graphshare.files.atomic import OutputTransaction
from graphshare.fleet import slots
from graphshare.fleet.foreach import FleetOptions, FleetRun, foreach
from graphshare.fleet.records import Captured, FleetModel, Killed, Result, Task
from graphshare.fleet.tasks import Template
from graphshare.fleet.work import make_unfinished, work
from graphshare.worker_process import EndedError, Worker
from tests.effort import ends
from tests.processes import module_path

_SLEEPS = 120
"""Seconds for which a model sleeps that nothing ends."""


@pytest.fixture(autouse=True)
def _in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes import this module, but nothing from the current folder."""
    monkeypatch.chdir(tmp_path)


def prepare() -> None:
    """Worker processes need nothing."""


def run(words: Sequence[str]) -> Captured:
    """Do what the name of the file says."""
    name = os.path.basename(words[0])
    if name.startswith("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    if name.startswith("once") and not os.path.exists(f"{words[0]}.tried"):
        Path(f"{words[0]}.tried").touch()
        os._exit(3)
    if name.startswith("sleeps"):
        time.sleep(_SLEEPS)
    if name.startswith("hangs"):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        time.sleep(_SLEEPS)
    if name.startswith("takes"):
        try:
            bytearray(1 << 30)
        except MemoryError:
            return Captured(2, b"", "", [Fault("too large")])
    return Captured(0, b"", "")


def fleet(folder: Path, *names: str, settings: FleetOptions) -> FleetRun:
    for name in names:
        (folder / f"{name}.json").write_text("{}")
    return foreach([f"{folder}/*.json"], Template(("{}",)), run, settings, prepare=prepare)


def answers(results: FleetRun) -> dict[str, str]:
    return {Path(result.source).stem: result.result for result in results}


@pytest.mark.large
def test_a_model_that_kills_its_worker_is_recorded_and_run_once_more_alone(tmp_path: Path) -> None:
    manifest = tmp_path / "run.jsonl"
    found = answers(
        fleet(
            tmp_path,
            "a",
            "dies",
            "m",
            "once",
            "z",
            settings=FleetOptions(jobs=2, manifest=str(manifest)),
        )
    )
    assert found == {"a": "done", "dies": "failed", "m": "done", "once": "done", "z": "done"}
    assert manifest.read_text().count('"result":"killed"') == 2
    assert manifest.read_text().count('"result":"failed"') == 1
    (failure,) = [line for line in manifest.read_text().splitlines() if '"failed"' in line]
    assert (
        "the worker process ended: out of memory, or a crash of native code; it failed again when run alone"
        in failure
    )


@pytest.mark.large
def test_a_model_beyond_its_limits_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_GRACE", 0.1)
    names = ("a", "hangs", "sleeps", "takes", "z")
    options = FleetOptions(time_limit=0.3, max_memory="500M")
    results = {Path(r.source).stem: r for r in fleet(tmp_path, *names, settings=options)}
    assert {name for name, result in results.items() if result} == {"a", "z"}
    assert "the time limit of 0.3 s has passed; nothing was written" in results["sleeps"].error
    assert (
        "the time limit of 0.3 s has passed, and the worker process was ended"
        in results["hangs"].error
    )
    assert results["takes"].error == "too large"


def test_a_run_that_is_closed_leaves_no_process(tmp_path: Path) -> None:
    run = fleet(tmp_path, "a", "sleeps", settings=FleetOptions(jobs=2))
    assert next(run).result == "done"
    with ends(_SLEEPS // 2):
        run.close()
    assert list(run) == []


def run_environment(words: Sequence[str]) -> Captured:
    """Print the number of threads."""
    return Captured(0, b'{"threads": %s}' % os.environ["OPENBLAS_NUM_THREADS"].encode(), "")


@pytest.mark.large
def test_workers_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    (tmp_path / "a.json").write_text("{}")
    template = Template(("{}",), has_report=True)
    (result,) = foreach(
        [f"{tmp_path}/a.json"], template, run_environment, FleetOptions(jobs=4), prepare=prepare
    )
    assert result.figures["threads"] == 3


@pytest.mark.large
def test_as_many_tasks_are_made_as_there_are_workers(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    made: list[int] = []

    def tasks() -> Iterator[Task]:
        for i in range(1000):
            made.append(i)
            yield Task(FleetModel(str(tmp_path / "a.json"), "", 0), ("a",), (), ("x",))

    outcomes = slots.run_in_slots(tasks(), run, prepare, 2)
    for i in range(5):
        assert isinstance(next(outcomes)[1], Result)
        assert len(made) <= i + 3
    outcomes.close()


def raise_refusal(words: Sequence[str]) -> Captured:
    raise RefusedError("refused: https://user:secret@host/a?token=1 is gone")


def raise_bug(words: Sequence[str]) -> Captured:
    raise ZeroDivisionError("by zero")


def raise_full(words: Sequence[str]) -> Captured:
    raise OSError(errno.ENOSPC, "No space left on device", "out.json")


def test_no_exception_of_a_command_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    task = Task(FleetModel(str(path), "", len(str(tmp_path)) + 1), ("x",), (), ("x",))
    result: Result = work(raise_refusal, task)
    assert (result.result, result.error) == ("failed", "refused: https://host/a?... is gone")
    result = work(raise_bug, task)
    assert (result.result, result.error) == (
        "failed",
        "this is a bug in graphshare: ZeroDivisionError: by zero",
    )
    result = work(raise_full, task)
    assert (result.result, result.error) == ("failed", "No space left on device: out.json")
    assert {result.code, work(raise_refusal, task).code, work(raise_bug, task).code} == {2}
    path.unlink()
    result = work(run, task)
    assert result.result == "failed"
    assert "cannot be read: No such file" in result.error
    assert not isinstance(result, GraphshareError)


SLOW_RUN = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from graphshare.fleet.foreach import FleetOptions, foreach
from tests.unit.fleet.test_slots import prepare, write
from graphshare.fleet.tasks import Template
if __name__ == "__main__":
    settings = FleetOptions(out="out", jobs=2, manifest="run.jsonl")
    template = Template(("{}",), (("-o", "graph"),))
    print(sum(not result.was_skipped for result in foreach(["models/*.json"], template, write, settings, prepare=prepare)))
"""


def write(words: Sequence[str]) -> Captured:
    """Write an output slowly, as one act."""
    with OutputTransaction() as stage:
        file = stage.open(words[2])
        file.write(Path(words[0]).read_bytes())
        file.flush()
        time.sleep(0.02)
        stage.commit()
    return Captured(0, b"", "")


@pytest.mark.large
def test_a_run_that_is_killed_three_times_does_nothing_twice_but_what_was_in_flight(
    tmp_path: Path,
) -> None:
    (tmp_path / "models").mkdir()
    for i in range(100):
        (tmp_path / "models" / f"{i:03}.json").write_text(str(i))
    (tmp_path / "run.py").write_text(SLOW_RUN)
    command = [sys.executable, "run.py"]
    environment = {**os.environ, "PYTHONPATH": module_path()}
    for _ in range(3):
        process = subprocess.Popen(command, cwd=tmp_path, env=environment)
        lines = _wait_for_lines(tmp_path / "run.jsonl", 10)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(random.random() / 10)
    assert lines < 100
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    text = (tmp_path / "run.jsonl").read_text()
    assert 0 < int(done.stdout) < 100
    # A line is written when all is in place
    assert text.count('"result":"done"') == text.count("\n") == 100
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"{i:03}.json" for i in range(100)]  # nothing of the killed runs is left
    assert all((tmp_path / "out" / name).read_text() == str(int(name[:3])) for name in names)


def _wait_for_lines(manifest: Path, more: int) -> int:
    """Return the lines of a manifest once it has some more than now."""
    start = count = manifest.read_bytes().count(b"\n") if manifest.exists() else 0
    deadline = time.monotonic() + 30
    while count < start + more and time.monotonic() < deadline:
        time.sleep(0.005)
        count = manifest.read_bytes().count(b"\n") if manifest.exists() else 0
    return count


@pytest.mark.parametrize(
    ("cores", "jobs", "threads"), [(12, 4, 3), (7, 2, 3), (2, 4, 1), (None, 1, 1)]
)
def test_workers_have_as_many_threads_as_there_are_cores(
    cores: int | None, jobs: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert slots._share_cores(jobs) == threads


def test_a_task_whose_worker_has_ended_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_end(self: Worker) -> None:
        raise EndedError

    monkeypatch.setattr(Worker, "receive", raise_end)
    assert slots.Slot(run, prepare, 1).receive() == Killed(
        "the worker process ended: out of memory, or a crash of native code"
    )


class Script:
    """Slots without processes: a clock, and the names of the slots that have a message after each wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *ready: str) -> None:
        self.clock, self.ready = 100.0, list(ready)
        self.waits: list[float | None] = []
        self.events: list[tuple[object, ...]] = []
        monkeypatch.setattr(slots, "wait", self.wait)
        monkeypatch.setattr(slots, "time", SimpleNamespace(monotonic=lambda: self.clock))

    def wait(self, connections: Sequence[Any], seconds: float | None) -> list[Any]:
        self.waits.append(seconds)
        self.clock += 1
        names = self.ready.pop(0)
        return [connection for connection in reversed(connections) if connection.name in names]

    def slot(self, name: str, *messages: object, begun: float | None = None) -> Any:
        """A slot whose process sends these messages."""
        left = list(messages)
        return SimpleNamespace(
            begun=begun,
            submit=lambda task: Connection(name, left),
            receive=lambda: left.pop(0),
            signal=lambda number: self.events.append((name, signal.Signals(number).name)),
            close=lambda: self.events.append((name, "close")),
        )


class Connection(NamedTuple):
    """What a slot sends."""

    name: str
    left: list[object]

    def __hash__(self) -> int:
        return hash(self.name)

    def poll(self) -> bool:
        return bool(self.left)


def make_task(name: str, time_limit: float | None = None) -> Task:
    return Task(FleetModel(name, "", 0), (name,), (), ("x",), time_limit=time_limit)


DONE, GONE = make_unfinished(make_task("x"), "done", ""), Killed("gone")


def test_tasks_that_end_at_once_are_in_the_order_in_which_they_were_submitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(monkeypatch, "abc", "ab")
    running = slots._Running([])
    a, b, c = script.slot("a", None, DONE), script.slot("b", DONE), script.slot("c", GONE)
    tasks = [make_task(name) for name in "abc"]
    for slot, task in zip((a, b, c), tasks, strict=True):
        running.add(slot, task)
    assert list(running.wait()) == [(b, tasks[1], DONE), (c, tasks[2], GONE)]
    assert list(running.wait()) == [(a, tasks[0], DONE)]
    assert script.waits == [None, None]


def test_a_task_more_than_there_are_workers_is_made_and_every_worker_has_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(monkeypatch, "b", "ab", "a")
    idle = iter([script.slot("a", DONE, DONE), script.slot("b", DONE, DONE)])
    monkeypatch.setattr(slots, "Slot", lambda *settings: next(idle))
    tasks, made = [make_task(f"t{i}") for i in range(4)], list[Task]()

    def make() -> Iterator[Task]:
        for task in tasks:
            made.append(task)
            yield task

    counts = []
    for expected, (task, outcome) in zip(
        tasks, slots.run_in_slots(make(), run, prepare, 2), strict=True
    ):
        assert (task, outcome) == (expected, DONE)
        counts.append(len(made))
    assert counts == [3, 4, 4, 4]
    assert script.events == [("a", "close"), ("b", "close")]


def test_a_worker_is_ended_five_seconds_after_its_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(monkeypatch, "", "", "")
    running = slots._Running([])
    running.add(script.slot("a", begun=101.0), make_task("a", 3))  # until 109
    running.add(script.slot("b"), make_task("b"))
    running.add(script.slot("c", begun=20.0), make_task("c", 2))  # until 107
    running.add(script.slot("d", DONE, begun=20.0), make_task("d", 2))
    script.clock = 105.0
    assert list(running.wait()) == []
    ((_, task, outcome),) = running.wait()
    reason = "the time limit of 2 s has passed, and the worker process was ended"
    assert (task.words, outcome) == (("c",), Killed(reason, timed_out=True))
    assert script.events == [("c", "SIGKILL"), ("c", "close")]
    script.clock = 120.0
    assert [task.words for _, task, _ in running.wait()] == [("a",)]
    assert script.waits == [2.0, 1.0, 0.0]


def test_the_start_of_a_process_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, "")
    running = slots._Running([])
    running.add(script.slot("a"), make_task("a", 2))
    script.clock = 500.0
    assert list(running.wait()) == []
    assert script.waits == [7.0]


def test_workers_have_three_seconds_to_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, "ad", "b", "b", "")
    all_slots = [
        script.slot("a", GONE), script.slot("b", None, GONE), script.slot("c"), script.slot("d", DONE), script.slot("e")
    ]  # fmt: skip
    running = slots._Running(all_slots)
    for slot, name in zip(all_slots[:4], "abcd", strict=True):
        running.add(slot, make_task(name))
    running.close()
    assert script.waits == [3.0, 2.0, 1.0, 0.0]
    assert script.events == [
        *((name, "SIGTERM") for name in "abcd"), ("c", "SIGKILL"), *((name, "close") for name in "abcde")
    ]  # fmt: skip
    assert not running.tasks


def test_a_forked_copy_of_the_process_ends_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch)
    running = slots._Running([script.slot("a")])
    monkeypatch.setattr(os, "getpid", lambda: 0)
    running.close()
    assert script.events == []


UNGUARDED = """
from graphshare.fleet.foreach import FleetOptions, foreach
from graphshare.fleet.tasks import Template
from tests.unit.fleet.test_slots import prepare, run
print([result.result for result in foreach(["a.json"], Template(("{}",)), run, FleetOptions(), prepare=prepare)])
"""


@pytest.mark.parametrize("given", ["script.py", "-", "-c"])
def test_a_script_needs_no_guard_and_no_file(given: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "script.py").write_text(UNGUARDED)
    words = ["-c", UNGUARDED] if given == "-c" else [given]
    environment = {**os.environ, "PYTHONPATH": module_path()}
    done = subprocess.run(
        [sys.executable, *words],
        input=UNGUARDED,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['done']\n"


def test_what_has_killed_its_worker_is_run_again_alone_but_not_what_took_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[tuple[list[str], int]] = []

    def run_tasks(
        tasks: Iterator[Task], run: object, prepare: object, jobs: int
    ) -> Iterator[tuple[Task, Result | Killed]]:
        listed = list(tasks)
        names = [Path(task.words[0]).stem for task in listed]
        runs.append((names, jobs))
        for name, task in zip(names, listed, strict=True):
            is_killed = name == "dies" or (name == "once" and len(runs) == 1)
            yield (
                task,
                Killed(name, timed_out=name == "late")
                if is_killed or name == "late"
                else make_unfinished(task, "done", ""),
            )

    monkeypatch.setattr("graphshare.fleet.foreach.run_in_slots", run_tasks)
    manifest = tmp_path / "run.jsonl"
    settings = FleetOptions(jobs=3, manifest=str(manifest))
    results = [
        (Path(r.source).stem, r.result, r.error)
        for r in fleet(tmp_path, "a", "dies", "late", "once", settings=settings)
    ]
    assert runs == [(["a", "dies", "late", "once"], 3), (["dies"], 1), (["once"], 1)]
    again = "dies; it failed again when run alone"
    assert results == [
        ("a", "done", ""),
        ("late", "failed", "late"),
        ("dies", "failed", again),
        ("once", "done", ""),
    ]
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    assert [(Path(line["source"]).stem, line["result"]) for line in lines] == [
        ("a", "done"), ("dies", "killed"), ("late", "failed"), ("once", "killed"), ("dies", "failed"), ("once", "done")
    ]  # fmt: skip
