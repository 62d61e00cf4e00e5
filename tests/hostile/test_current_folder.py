"""No command runs code from the current folder: beside a stranger's model may lie a file with the
name of any module.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.meta.test_security import models
from tests.processes import environment
from tests.watch import MODELS, TABLE

__all__ = ["models"]
PACKAGES = """click colorama distributed fsspec google jsonschema markdown_it msgspec numpy onnx onnxruntime
pygments referencing rich sitecustomize typing_extensions usercustomize yaml""".split()


@cache
def list_twins() -> frozenset[str]:
    """The modules of the standard library and of packages, but those that Python imports before any
    of ours with ``-m``.
    """
    code = "import sys, runpy, importlib.util, pkgutil; print(*sys.modules)"
    early = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    return frozenset([*sys.stdlib_module_names, *PACKAGES]) - {
        name.partition(".")[0] for name in early
    }


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with twins of all modules, which note that they ran and end the process."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in list_twins():
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name + ' '!r})\nraise SystemExit(3)\n"
        )
    return folder


def run_there(
    folder: Path, words: list[str], command: list[str]
) -> subprocess.CompletedProcess[str]:
    (folder / "made").mkdir()
    return subprocess.run(
        [*command, *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )


def list_lines() -> list[Any]:
    """Return the commands that start a program, each with its models; for long runs those with
    options, and all others.
    """
    lines = []
    for name, entry in TABLE.read_measured().items():
        for model in MODELS:
            starts = bool(entry.get(model, TABLE.EMPTY)["starts"])
            is_plain = not TABLE.split_name(name)[1]
            if starts or is_plain:
                marks = [] if starts and is_plain else [pytest.mark.large]
                lines.append(pytest.param(entry["line"], model, marks=marks, id=f"{name}-{model}"))
    return lines


@pytest.mark.parametrize(("line", "model"), list_lines())
def test_no_command_imports_from_the_current_folder(
    line: str, model: str, models: Path, hostile: Path, request: pytest.FixtureRequest
) -> None:
    if "made/page.p" in line:
        request.getfixturevalue("graphviz")
    shutil.copytree(models, hostile / "models")
    done = run_there(
        hostile, line.format(**MODELS[model]).split(), [sys.executable, "-m", "graphshare"]
    )
    ran = hostile.parent / "ran"
    assert not ran.exists(), ran.read_text()
    assert done.returncode in (0, 1, 2)
    assert "Traceback" not in done.stderr


def test_nor_does_the_script_that_is_installed(models: Path, hostile: Path) -> None:
    script = hostile.parent / "bin" / "graphshare"
    script.parent.mkdir()
    # As pip writes it
    script.write_text("import sys\nfrom graphshare.__main__ import main\nsys.exit(main())\n")
    done = run_there(
        hostile,
        ["check", str(models / "lenet"), str(models / "small.onnx")],
        [sys.executable, str(script)],
    )
    assert not (hostile.parent / "ran").exists()
    assert done.returncode in (0, 1), done.stderr


def test_files_of_many_models_are_checked_by_workers_without_it(
    models: Path, hostile: Path
) -> None:
    many = hostile / "many"
    many.mkdir()
    for number in range(40):
        (many / f"{number}.onnx").symlink_to(models / "small.onnx")
    done = run_there(
        hostile, ["check", str(many), "--jobs", "2"], [sys.executable, "-m", "graphshare"]
    )
    assert not (hostile.parent / "ran").exists()
    assert "40 files" in done.stdout


def test_a_twin_that_runs_is_seen(hostile: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", "import click"], cwd=hostile, env=environment(), check=False
    )
    assert (hostile.parent / "ran").read_text() == "click "
