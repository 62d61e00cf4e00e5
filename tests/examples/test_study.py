"""The data scientist's script of the documentation runs, and type checkers and the linter accept it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.test_code_shape import count_statements
from tests.processes import environment
from tests.surroundings import ROOT, missing

PYTHON = Path(sys.executable)
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
MISSPELT = 'import graphshare as gs\n\nprint(gs.laod("lenet"))\n'


@pytest.fixture
def script(tmp_path: Path) -> Path:
    match = re.search(r'^```python title="study.py"\n(.*?)^```$', PAGE, re.M | re.S)
    assert match is not None
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    path = tmp_path / "study.py"
    path.write_text(match[1], encoding="utf-8")
    return path


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of the lint extra in the checkout; its package is beside this Python or on the path."""
    tool = shutil.which(
        name, path=os.pathsep.join([str(PYTHON.parent), os.environ.get("PATH", "")])
    )
    if tool is None:
        missing("types", f"{name} is of the lint extra")
    command = [tool, *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=environment(),
    )


CHECKERS = {
    "mypy": ("mypy", "--strict"),
    "pyright": ("pyright", "--pythonpath", str(PYTHON)),
    "ruff": ("ruff", "check", "--config", str(ROOT / "pyproject.toml")),
}


@pytest.mark.slow
def test_it_runs(script: Path) -> None:
    for name in ("pandas", "onnxruntime"):
        if importlib.util.find_spec(name) is None:
            missing("types", f"{name} is of the extras jupyter and test together")
    run = subprocess.run(
        [PYTHON, script.name],
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment(),
    )
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert lines[0].startswith(
        "EQUAL: the other model and the original, within the tolerance on 1 input; "
    )
    assert lines[1] == "SAME: the graphs and their parameters"
    assert lines[-1] == "Name: best, dtype: float64"
    assert (script.parent / "siam.onnx").exists()
    assert count_statements(script.read_text(encoding="utf-8"))[""] <= 33


@pytest.mark.slow
@pytest.mark.parametrize(
    "checker", [pytest.param(n, marks=[] if n == "ruff" else [pytest.mark.large]) for n in CHECKERS]
)
def test_checkers_accept_it(checker: str, script: Path) -> None:
    run = run_tool(*CHECKERS[checker], str(script))
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.large
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_checkers_see_a_misspelt_name(checker: str, script: Path) -> None:
    script.write_text(MISSPELT, encoding="utf-8")
    run = run_tool(*CHECKERS[checker], str(script))
    assert run.returncode == 1
    assert "laod" in run.stdout
