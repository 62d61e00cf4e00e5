"""The tests run once with each processor's kernels that this machine can run and does not use anyway."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests import processors
from tests.processors import (
    FOLDERS,
    PROCESSORS,
    choose_processors,
    find_kernels,
    main,
    read_instructions,
)
from tests.surroundings import ROOT

EVERY = set(" ".join(PROCESSORS.values()).split())


class Machine:
    """A processor with some instructions, whose numpy has kernels by their names, and the commands
    that run tests on it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.instructions = EVERY
        self.kernels = {None: "SkylakeX", **{name: name for name in PROCESSORS}, "Zen": "Haswell"}
        self.commits = 1797
        self.status = 0
        self.runs: list[tuple[list[str], str]] = []
        monkeypatch.setattr(processors, "read_instructions", lambda: self.instructions)
        monkeypatch.setattr(
            processors, "find_kernels", lambda processor=None: self.kernels[processor]
        )
        monkeypatch.setattr(processors, "count_commits", lambda: self.commits)
        monkeypatch.setattr(subprocess, "run", self.run)

    def run(
        self, command: list[str], *, env: dict[str, str], **options: Any
    ) -> subprocess.CompletedProcess[str]:
        assert set(FOLDERS) <= set(command)
        self.runs.append(
            ([word for word in command if word.startswith("--tx")], env["GRAPHSHARE_TENTH"])
        )
        return subprocess.CompletedProcess(command, self.status)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_kernels_run_once_and_those_used_anyway_not_at_all(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main() == 0
    chosen = ["Haswell", "Sandybridge", "Nehalem"]
    assert machine.runs == [
        ([f"--tx=popen//id={name}//env:OPENBLAS_CORETYPE={name}" for name in chosen], "7")
    ]
    assert capsys.readouterr().out.splitlines() == [
        "SkylakeX: skipped, the kernels for SkylakeX are used anyway",
        "Zen: skipped, the kernels for Haswell are used anyway",
        "Haswell, Sandybridge, Nehalem: GRAPHSHARE_TENTH=7",
    ]


def test_a_build_with_kernels_for_zen_runs_them_too(machine: Machine) -> None:
    machine.kernels |= {None: "Haswell", "Zen": "Zen"}
    assert choose_processors() == ["SkylakeX", "Zen", "Sandybridge", "Nehalem"]


def test_a_processor_whose_instructions_are_lacking_is_skipped(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    # The others are not even tried
    machine.kernels = {None: "Sandybridge", "Sandybridge": "Sandybridge", "Nehalem": "Nehalem"}
    machine.instructions = {"sse4_2", "avx", "avx2", "avx512f"}
    assert choose_processors() == ["Nehalem"]
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0] == "SkylakeX: skipped, this machine lacks avx512cd, avx512bw, avx512dq, avx512vl"
    )
    assert lines[1:3] == [f"{name}: skipped, this machine lacks fma" for name in ("Haswell", "Zen")]


def test_where_all_are_skipped_nothing_runs(machine: Machine) -> None:
    machine.instructions = set()
    assert main() == 0
    assert machine.runs == []


def test_ten_commits_take_ten_tenths(machine: Machine) -> None:
    for machine.commits in range(95, 105):
        main()
    assert sorted(tenth for _, tenth in machine.runs) == [str(tenth) for tenth in range(10)]


def test_a_failure_is_reported(machine: Machine) -> None:
    machine.status = 1
    assert main() == 1


@pytest.mark.parametrize("kernels", ["SkylakeX", "Haswell", "no OpenBLAS"])
def test_kernels_that_were_not_asked_for_are_an_error(kernels: str, machine: Machine) -> None:
    machine.kernels["Sandybridge"] = kernels
    with pytest.raises(
        SystemExit,
        match=f"Sandybridge: numpy computes with the kernels for {kernels}, so OPENBLAS_CORETYPE is not",
    ):
        main()


@pytest.mark.skipif(
    "sse4_2" not in (read_instructions() if sys.platform == "linux" else ()),
    reason="not such a processor",
)
def test_openblas_takes_the_kernels_that_are_named() -> None:
    assert find_kernels("Nehalem") == "Nehalem"


def test_the_folders_are_there() -> None:
    assert all((ROOT / folder).is_dir() for folder in FOLDERS)
