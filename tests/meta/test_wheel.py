"""The wheel carries what the command needs: built, installed into an empty environment, and used there.

Every page of the documentation is run once more outside the checkout: with the wheel in an
environment of its own, and with what pipx makes of it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from tests.meta.test_docs import GENERATE, LONG, PAGES
from tests.shared_folders import build_once
from tests.surroundings import is_required, missing

ROOT = Path(__file__).parents[2]
OF_DEVELOPERS = {"test", "docs", "netron", "lint"}  # the other extras are of users


def run(
    *command: str, cwd: Path, check: bool = True, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout."""
    if not is_required("network"):
        pytest.skip("fetches packages: set GRAPHSHARE_REQUIRE=network")
    return next(build_once(tmp_path_factory, "build", build_wheel).glob("graphshare-*.whl"))


def build_wheel(folder: Path) -> None:
    """Build with this test's own pip, so that it works where tests were installed with --target."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        str(folder),
    ]
    built = subprocess.run([*command, str(ROOT)], env=dict(os.environ), capture_output=True)
    assert built.returncode == 0, built.stderr.decode()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel and what it requires, and nothing else."""

    def install(folder: Path) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=folder)
        python = folder / "env" / "bin" / "python"
        site = run(
            str(python), "-c", "import site; print(site.getsitepackages()[0])", cwd=folder
        ).stdout.strip()
        command = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "-q",
            "--target",
            site,
            str(wheel),
        ]
        subprocess.run(command, env=dict(os.environ), check=True, capture_output=True)

    return build_once(tmp_path_factory, "installed", install) / "env" / "bin" / "python"


def with_extras(wheel: Path) -> str:
    """Return the requirement of the wheel with the extras that its users may want."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        extras = message_from_bytes(archive.read(name)).get_all("Provides-Extra", [])
    return f"{wheel}[{','.join(sorted(set(extras) - OF_DEVELOPERS))}]"


def install_with_pip(wheel: Path, folder: Path) -> None:
    """Install the wheel with all extras of users into the environment ``env`` of a folder."""
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    python = str(folder / "env" / "bin" / "python")
    run(
        python,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "-q",
        with_extras(wheel),
        cwd=folder,
    )


def install_with_pipx(wheel: Path, folder: Path) -> None:
    """Install the wheel with all extras of users as pipx does, with its homes in a folder."""
    if run(sys.executable, "-m", "pipx", "--version", cwd=folder, check=False).returncode:
        missing("network", "pipx is not installed")
    homes = {f"PIPX_{name.upper()}": str(folder / name) for name in ("home", "bin_dir", "man_dir")}
    run(sys.executable, "-m", "pipx", "install", "-q", with_extras(wheel), cwd=folder, **homes)


INSTALLATIONS = {
    "wheel": (install_with_pip, "env/bin/python", "env/bin/graphshare"),
    "pipx": (install_with_pipx, "home/venvs/graphshare/bin/python", "bin_dir/graphshare"),
}
"""Who installs, and where the Python and the command are then."""


@pytest.fixture(scope="module", params=INSTALLATIONS)
def installation(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """The graphshare that pip or pipx installed, with all extras of users, outside the checkout."""
    install, python, script = INSTALLATIONS[request.param]
    folder = build_once(tmp_path_factory, request.param, partial(install, wheel))
    place = run(
        str(folder / python), "-c", "import graphshare; print(graphshare.__file__)", cwd=folder
    ).stdout
    assert place.startswith(str(folder))
    return GENERATE.Installation((str(folder / script),), str(folder / python), {})


RUNS = [
    (page, by)
    for page in PAGES
    for by in INSTALLATIONS
    if by == "wheel" or page.parent.name not in LONG
]
"""Pages that take minutes are run with one installation."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "installation"),
    RUNS,
    indirect=["installation"],
    ids=[f"{by}-{page.relative_to(ROOT)}" for page, by in RUNS],
)
def test_blocks_show_what_installed_commands_print(
    page: Path, installation: Any, tmp_path: Path
) -> None:
    text = page.read_text(encoding="utf-8")
    assert GENERATE.run_blocks(text, GENERATE.prepare_folder(tmp_path, page), installation) == text


@pytest.mark.slow
def test_the_installed_help_is_that_of_the_checkout(installation: Any, tmp_path: Path) -> None:
    for path, _ in [("", click.Command("")), *GENERATE.list_commands()]:
        shown, expected = (
            run(*command, *path.split(), "--help", cwd=tmp_path, **variables).stdout
            for command, _, variables in (installation, GENERATE.find_checkout())
        )
        assert shown == expected
        assert shown.startswith("Usage: graphshare ")


@pytest.mark.slow
def test_examples_of_the_installed_help_run(installation: Any, tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    inputs = GENERATE.prepare_folder(tmp_path / "inputs")
    run(
        *installation.command,
        "duplicate",
        "lenet",
        "--prefix",
        "sha-",
        "--mode",
        "tie",
        "-o",
        "siam",
        cwd=inputs,
    )
    values = ("--seed", "0", "--shape", "data=1,1,28,28", "--all", "-o", "dump.npz")
    run(*installation.command, "run", "lenet", *values, cwd=inputs)
    (inputs / "rules.json").write_text('{"version": 1, "rules": [{"scope": "b", "to": "a"}]}')
    run(
        *installation.command,
        "export",
        "lenet",
        "--no-verify",
        "--shape",
        "data=1,1,28,28",
        "-o",
        "lenet.onnx",
        cwd=inputs,
    )
    run(*installation.command, "fold", "lenet.onnx", "--no-verify", "-o", "folded.onnx", cwd=inputs)
    run(
        *installation.command,
        "group",
        "lenet.onnx",
        "folded.onnx",
        "--switch",
        "exact",
        "-o",
        "both.onnx",
        cwd=inputs,
    )
    for name, source in (("model", "lenet"), ("optimized", "folded")):
        shutil.copy(inputs / f"{source}.onnx", inputs / f"{name}.onnx")
    for path, lines in GENERATE.list_examples().items():
        folder = shutil.copytree(inputs, tmp_path / path.replace(" ", "-"))
        for name in GENERATE.CHECKPOINT_FOLDERS if any("gpt" in line for _, line in lines) else ():
            shutil.copytree(ROOT / "fixtures" / name, folder / name)
        for _, line in lines if path != "completion" else ():
            words = shlex.split(line)
            assert words[0] == "graphshare"
            run(*installation.command, *words[1:], cwd=folder)


@pytest.mark.slow
def test_the_wheel_duplicates(installed: Path, tmp_path: Path) -> None:
    stem = str(ROOT / "fixtures" / "lenet")
    run(
        str(installed),
        "-m",
        "graphshare",
        "duplicate",
        stem,
        "--prefix",
        "sha-",
        "-o",
        "siam",
        cwd=tmp_path,
    )
    shown = run(
        str(installed), "-m", "graphshare", "inspect", "siam", "--format", "json", cwd=tmp_path
    )
    assert json.loads(shown.stdout)["outputs"] == ["softmax_output", "sha-softmax_output"]


@pytest.mark.slow
def test_the_wheel_has_its_schemas(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text(
        '{"nodes": [{"op": "null", "name": 1, "inputs": []}], "arg_nodes": [0], "heads": []}'
    )
    done = run(
        str(installed), "-m", "graphshare", "inspect", "broken.json", cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert "$.nodes[0].name: is an integer (1), not a string" in done.stderr
    listed = run(
        str(installed),
        "-c",
        "import graphshare, os; print(*os.listdir(graphshare.__path__[0] + '/schemas'))",
        cwd=tmp_path,
    )
    assert sorted(listed.stdout.split()) == sorted(
        path.name for path in (ROOT / "schemas").iterdir()
    )


@pytest.mark.slow
def test_the_wheel_is_typed(installed: Path, tmp_path: Path) -> None:
    found = run(
        str(installed),
        "-c",
        "import graphshare, os; print(os.listdir(graphshare.__path__[0]))",
        cwd=tmp_path,
    )
    assert "py.typed" in found.stdout
