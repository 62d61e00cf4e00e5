"""The tests run once with each processor's kernels that this machine can run and does not use anyway."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests import processors
from tests.processors import FOLDERS, PROCESSORS, find_kernels, main, read_instructions
from tests.surroundings import ROOT

EVERY = set(" ".join(PROCESSORS.values()).split())


class Machine:
    """A processor with some instructions, whose numpy has kernels by their names, and the runs of tests on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.instructions = EVERY
        self.kernels = {None: "SkylakeX", **{name: name for name in PROCESSORS}, "Zen": "Haswell"}
        self.commits = 1797
        self.failing: tuple[str, ...] = ()
        self.runs: list[tuple[str, str]] = []
        monkeypatch.setattr(processors, "read_instructions", lambda: self.instructions)
        monkeypatch.setattr(processors, "find_kernels", lambda processor=None: self.kernels[processor])
        monkeypatch.setattr(processors, "count_commits", lambda: self.commits)
        monkeypatch.setattr(subprocess, "run", self.run)

    def run(self, command: list[str], *, env: dict[str, str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert set(FOLDERS) <= set(command)
        self.runs.append((env["OPENBLAS_CORETYPE"], env["GRAPHSHARE_TENTH"]))
        return subprocess.CompletedProcess(command, int(env["OPENBLAS_CORETYPE"] in self.failing))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_kernels_run_once_and_those_used_anyway_not_at_all(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    assert machine.runs == [("Haswell", "7"), ("Sandybridge", "7"), ("Nehalem", "7")]
    assert capsys.readouterr().out.splitlines() == [
        "SkylakeX: skipped, the kernels for SkylakeX are used anyway",
        "Haswell: GRAPHSHARE_TENTH=7",
        "Zen: skipped, the kernels for Haswell are used anyway",
        "Sandybridge: GRAPHSHARE_TENTH=7",
        "Nehalem: GRAPHSHARE_TENTH=7",
    ]


def test_a_build_with_kernels_for_zen_runs_them_too(machine: Machine) -> None:
    machine.kernels |= {None: "Haswell", "Zen": "Zen"}
    assert main() == 0
    assert [processor for processor, _ in machine.runs] == ["SkylakeX", "Zen", "Sandybridge", "Nehalem"]


def test_a_processor_whose_instructions_are_lacking_is_skipped(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.kernels[None] = "Sandybridge"
    machine.instructions = {"sse4_2", "avx", "avx2", "avx512f"}
    assert main() == 0
    assert machine.runs == [("Nehalem", "7")]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "SkylakeX: skipped, this machine lacks avx512cd, avx512bw, avx512dq, avx512vl"
    assert lines[1] == "Haswell: skipped, this machine lacks fma"


def test_ten_commits_take_ten_tenths(machine: Machine) -> None:
    for machine.commits in range(95, 105):
        main()
    assert sorted(tenth for processor, tenth in machine.runs if processor == "Nehalem") == [str(tenth) for tenth in range(10)]


def test_a_failure_of_one_processor_is_that_of_all_and_the_others_run(machine: Machine) -> None:
    machine.failing = ("Haswell",)
    assert main() == 1
    assert len(machine.runs) == 3


@pytest.mark.parametrize("kernels", ["SkylakeX", "Haswell", "no OpenBLAS"])
def test_kernels_that_were_not_asked_for_are_an_error(kernels: str, machine: Machine) -> None:
    machine.kernels["Sandybridge"] = kernels
    with pytest.raises(
        SystemExit, match=f"Sandybridge: numpy computes with the kernels for {kernels}, so OPENBLAS_CORETYPE is not"
    ):
        main()


@pytest.mark.skipif("sse4_2" not in (read_instructions() if sys.platform == "linux" else ()), reason="not such a processor")
def test_openblas_takes_the_kernels_that_are_named() -> None:
    assert find_kernels("Nehalem") == "Nehalem"


def test_the_folders_are_there() -> None:
    assert all((ROOT / folder).is_dir() for folder in FOLDERS)
