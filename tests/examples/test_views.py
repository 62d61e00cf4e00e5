"""The notebook of all views runs in a real Jupyter, and every view is HTML or SVG."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import environment
from tests.surroundings import ROOT, missing

NOTEBOOK = ROOT / "examples" / "views.ipynb"
VIEWS = 17


def execute(notebook: Path, folder: Path) -> list[dict[str, Any]]:
    """Return the code cells of a notebook with the outputs that Jupyter gives them."""
    if (
        importlib.util.find_spec("nbconvert") is None
        or importlib.util.find_spec("ipykernel") is None
    ):
        missing("jupyter", "nbconvert and ipykernel are of the jupyter extra")
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--to",
        "notebook",
        "--execute",
        str(notebook),
        "--output-dir",
        str(folder),
    ]
    variables = environment(JUPYTER_PLATFORM_DIRS="1", HOME=str(folder), IPYTHONDIR=str(folder))
    run = subprocess.run(
        command,
        cwd=notebook.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=variables,
    )
    assert run.returncode == 0, run.stderr
    cells = json.loads((folder / notebook.name).read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_every_view_is_shown(tmp_path: Path) -> None:
    shown = [output for cell in execute(NOTEBOOK, tmp_path) for output in cell["outputs"]]
    assert [output["output_type"] for output in shown] == ["execute_result"] * VIEWS
    for output in shown:
        assert output["data"].keys() & {"text/html", "image/svg+xml"}
        assert len("".join(output["data"]["text/plain"]).splitlines()) == 1


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
