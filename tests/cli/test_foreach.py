"""``foreach``: one command for many models, with a manifest, in worker processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphshare.fleet.records import Result, Run, Task
from graphshare.fleet.work import work
from tests.processes import ROOT, done, graphshare


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder ``models`` with the fixtures, in the directory of the test."""
    folder = tmp_path / "models"
    folder.mkdir()
    for path in (ROOT / "fixtures").glob("*-*.*"):
        if path.suffix in (".json", ".params"):
            (folder / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Tasks run in this process, which takes no time to start; the list has those that were run."""
    ran: list[Task] = []

    def run_here(tasks: Iterator[Task], run: Run, prepare: object, jobs: int) -> Iterator[tuple[Task, Result]]:
        for task in tasks:
            ran.append(task)
            yield task, work(run, task)

    monkeypatch.setattr("graphshare.fleet.foreach.run_in_slots", run_here)
    return ran


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_outputs_are_those_of_the_command_one_by_one(models: Path, tmp_path: Path) -> None:
    run = done(
        graphshare(
            "foreach",
            "models/*-symbol.json",
            "-o",
            "out",
            "--jobs",
            "2",
            "--",
            "duplicate",
            "{}",
            "--prefix",
            "sha-",
            cwd=tmp_path,
        )
    )
    assert b"3 models: 3 done" in run.stdout
    (tmp_path / "alone").mkdir()
    for stem in ("blog", "lenet", "nin"):
        done(
            graphshare(
                "duplicate",
                f"models/{stem}",
                "--prefix",
                "sha-",
                "-o",
                f"alone/{stem}",
                "--map-out",
                f"alone/{stem}-map.json",
                cwd=tmp_path,
            )
        )
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
