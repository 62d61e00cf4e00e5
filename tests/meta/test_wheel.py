"""The wheel carries what the command needs: built, installed into an empty environment, and used there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.surroundings import is_required

ROOT = Path(__file__).parents[2]


def run(*command: str, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel and what it requires, and nothing else."""
    if not is_required("network"):
        pytest.skip("fetches packages: set GRAPHSHARE_REQUIRE=network")
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    # The environment of this test's own pip, so that it works where tests were installed with --target.
    environment = dict(os.environ)
    built = subprocess.run(
        [*pip, "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)], env=environment, capture_output=True
    )
    assert built.returncode == 0, built.stderr.decode()
    wheel = next(folder.glob("graphshare-*.whl"))
    run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=folder)
    python = folder / "env" / "bin" / "python"
    site = run(str(python), "-c", "import site; print(site.getsitepackages()[0])", cwd=folder).stdout.strip()
    subprocess.run([*pip, "install", "-q", "--target", site, str(wheel)], env=environment, check=True, capture_output=True)
    return python


@pytest.mark.slow
def test_the_wheel_duplicates(installed: Path, tmp_path: Path) -> None:
    stem = str(ROOT / "fixtures" / "lenet")
    run(str(installed), "-m", "graphshare", "duplicate", stem, "--prefix", "sha-", "-o", "siam", cwd=tmp_path)
    shown = run(str(installed), "-m", "graphshare", "inspect", "siam", "--format", "json", cwd=tmp_path)
    assert json.loads(shown.stdout)["outputs"] == ["softmax_output", "sha-softmax_output"]


@pytest.mark.slow
def test_the_wheel_has_its_schemas(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"nodes": [{"op": "null", "name": 1, "inputs": []}], "arg_nodes": [0], "heads": []}')
    done = run(str(installed), "-m", "graphshare", "inspect", "broken.json", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "$.nodes[0].name: is an integer (1), not a string" in done.stderr
    listed = run(
        str(installed), "-c", "import graphshare, os; print(*os.listdir(graphshare.__path__[0] + '/schemas'))", cwd=tmp_path
    )
    assert sorted(listed.stdout.split()) == sorted(path.name for path in (ROOT / "schemas").iterdir())


@pytest.mark.slow
def test_the_wheel_is_typed(installed: Path, tmp_path: Path) -> None:
    found = run(str(installed), "-c", "import graphshare, os; print(os.listdir(graphshare.__path__[0]))", cwd=tmp_path)
    assert "py.typed" in found.stdout
