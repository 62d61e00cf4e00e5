"""The campaign of races: a few of its cases have no failure, and each part finds what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import disturbances, races
from tests.surroundings import ROOT, size_of_day

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
CARELESS = """
import subprocess, sys, time
from pathlib import Path
first = Path("models/one.onnx").read_bytes()
out = Path("out/new").open("wb", buffering=0)
out.write(first[: len(first) // 2])
for _ in range(20):
    time.sleep(0.02)
    Path("out/other").write_bytes(b"whole")
out.write(Path("models/one.onnx").read_bytes()[len(first) // 2 :])
subprocess.Popen(["sleep", "20"], stdout=-3, stderr=-3, start_new_session=True) if "leaves" in sys.argv else None
"""


@pytest.fixture
def cases(tmp_path: Path) -> races.Cases:
    return races.Cases(0, tmp_path.resolve())


def test_a_few_cases(cases: races.Cases) -> None:
    for number in range(size_of_day(4, 24)):
        part, command, wrong = cases.run(number)
        assert wrong == [], (part, command)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("killed", "new is of no run"),
        ("changed", "new is of no run"),
        ("linked", "wrote through a link"),
        ("full", "'Traceback' on stderr"),
    ],
)
def test_a_careless_command_is_found(
    part: str, words: str, cases: races.Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = f"x {disturbances.MODELS}/one.onnx"
    monkeypatch.setattr(races, "COMMAND", [sys.executable, "-c", CARELESS])
    monkeypatch.setattr(races, "READING", (command,))
    monkeypatch.setattr(races, "WRITING", (command,))
    found: list[str] = []
    number = list(cases.parts).index(part)
    while not any(what.startswith(words) for what in found):
        assert number < 100, found
        found += cases.run(number)[2]
        number += 4 if number % 24 != 19 else 8


def test_what_goes_on_is_found_and_ended(
    cases: races.Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(races, "COMMAND", [sys.executable, "-c", CARELESS])
    monkeypatch.setattr(disturbances, "PATIENCE", 0.5)
    cases.reset()
    ended = cases.finish(cases.start("leaves"), 0)
    assert cases.judge(ended, {0}) == ["goes on: sleep 20 "]
    assert cases.judge(ended, {0}) == []
    assert cases.judge(ended._replace(code=-11), {0, 2}) == ["exit code -11: "]


def test_files_of_two_runs_are_told_apart(tmp_path: Path) -> None:
    before, after = {"a": b"1", "b": b"1"}, {"a": b"2", "b": b"2"}
    assert disturbances.find_other({"a": b"2"}, [before, after]) == []
    assert disturbances.find_other({}, [before, after]) == []
    assert disturbances.find_other({"a": b"1", "b": b"2"}, [before, after]) == ["files of two"]
    assert disturbances.find_other({"a": b"1", "c": b"2"}, [before, after]) == ["c is of no run"]
    disturbances.make_folder(tmp_path / "new")
    for path in (tmp_path / "new" / disturbances.MODELS).iterdir():
        if path.is_file():
            data = path.read_bytes()
            assert len(disturbances.make_other(data)) == len(data)
            assert disturbances.make_other(data) != data


def test_what_is_wrong_in_a_thread_is_printed(tmp_path: Path) -> None:
    code = "import tests.fuzz.sessions as s; s.infer = s.refuse = s.crash = lambda chance: 1 / 0; s.work(0, 0.5)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "ZeroDivisionError" in run.stderr
