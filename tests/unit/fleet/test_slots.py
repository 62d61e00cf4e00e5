"""Worker processes: a model that kills its worker, hangs or takes too much memory ends no other model."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from graphshare.errors import GraphshareError, RefusedError
from graphshare.files.atomic import OutputTransaction
from graphshare.fleet import slots
from graphshare.fleet.foreach import FleetOptions, FleetRun, foreach
from graphshare.fleet.records import Captured, FleetModel, Result, Task
from graphshare.fleet.tasks import Template
from graphshare.fleet.work import work
from tests.effort import ends
from tests.processes import ROOT

_SLEEPS = 120
"""Seconds for which a model sleeps that nothing ends."""


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
            return Captured(2, b"", "error: too large\n")
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
    found = answers(fleet(tmp_path, "a", "dies", "m", "once", "z", settings=FleetOptions(jobs=2, manifest=str(manifest))))
    assert found == {"a": "done", "dies": "failed", "m": "done", "once": "done", "z": "done"}
    assert manifest.read_text().count('"result":"killed"') == 2
    assert manifest.read_text().count('"result":"failed"') == 1
    (failure,) = [line for line in manifest.read_text().splitlines() if '"failed"' in line]
    assert "the worker process ended: out of memory, or a crash of native code; it failed again when run alone" in failure


@pytest.mark.large
def test_a_model_beyond_its_limits_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_GRACE", 0.1)
    names = ("a", "hangs", "sleeps", "takes", "z")
    options = FleetOptions(time_limit=0.3, max_memory="500M")
    results = {Path(r.source).stem: r for r in fleet(tmp_path, *names, settings=options)}
    assert {name for name, result in results.items() if result} == {"a", "z"}
    assert "the time limit of 0.3 s has passed; nothing was written" in results["sleeps"].error
    assert "the time limit of 0.3 s has passed, and the worker process was ended" in results["hangs"].error
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
    (result,) = foreach([f"{tmp_path}/a.json"], template, run_environment, FleetOptions(jobs=4), prepare=prepare)
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
    assert (result.result, result.error) == ("failed", "this is a bug in graphshare: ZeroDivisionError: by zero")
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
def test_a_run_that_is_killed_three_times_does_nothing_twice_but_what_was_in_flight(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for i in range(100):
        (tmp_path / "models" / f"{i:03}.json").write_text(str(i))
    (tmp_path / "run.py").write_text(SLOW_RUN)
    command = [sys.executable, "run.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
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
    assert text.count('"result":"done"') == text.count("\n") == 100  # a line is written when all is in place
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
