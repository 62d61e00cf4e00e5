"""Cases in ``fixtures/cases/<command>/<name>/``: arguments, inputs, and to the byte what comes out.

``cmd`` holds the arguments, one a line; ``code`` the exit code where it is not 0; ``in/`` the
folder that the command runs in; ``out/`` the files that it makes or changes; ``stdout`` and
``stderr`` what it says (absent: nothing).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.processes import ROOT, files_in, graphshare

CASES = sorted(path.parent for path in (ROOT / "fixtures" / "cases").glob("*/*/cmd"))


def expected(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_case(case: Path, tmp_path: Path) -> None:
    check_case(case, tmp_path)


def check_case(case: Path, tmp_path: Path) -> None:
    """Run a case in a folder, and compare what it says and writes."""
    folder = tmp_path / "in"
    shutil.copytree(case / "in", folder)
    before = {name: (folder / name).read_bytes() for name in files_in(folder)}
    run = graphshare(*(case / "cmd").read_text(encoding="utf-8").splitlines(), cwd=folder)
    assert run.stderr.decode() == expected(case / "stderr").decode()
    assert run.stdout.decode() == expected(case / "stdout").decode()
    assert run.returncode == int(expected(case / "code") or b"0")
    changed = {
        name for name in files_in(folder) if before.get(name) != (folder / name).read_bytes()
    }
    wanted = files_in(case / "out") if (case / "out").exists() else []
    assert sorted(changed) == wanted
    for name in wanted:
        assert (folder / name).read_bytes() == (case / "out" / name).read_bytes()
    assert before.keys() <= set(files_in(folder))


def test_there_are_cases_of_every_command_that_makes_a_graph() -> None:
    assert {case.parent.name for case in CASES} >= {
        "duplicate",
        "group",
        "extract",
        "rename",
        "upgrade",
        "format",
        "inspect",
    }
