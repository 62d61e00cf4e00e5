"""How other repositories use the check: the pre-commit hook and the action, run as their users run them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from importlib.metadata import requires
from pathlib import Path

import pytest

from graphshare.checks.engine import RULES
from graphshare.files.schema import find_violations
from graphshare.files.toml import read_toml
from tests.surroundings import ROOT, missing
from tests.unit.checks.examples import graph_bytes

pytestmark = pytest.mark.slow

PINS = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
PROJECT = read_toml((ROOT / "pyproject.toml").read_bytes(), where="pyproject.toml")["project"]
_GIT = [
    "git",
    "-c",
    "user.name=t",
    "-c",
    "user.email=t@example.invalid",
    "-c",
    "commit.gpgsign=false",
]


def environment(**more: str) -> dict[str, str]:
    """Without this checkout on the path of Python: what is installed must do."""
    return {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "GITHUB_ACTIONS")
    } | more


def run(*command: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with what this checkout holds, committed or not."""
    folder = tmp_path_factory.mktemp("graphshare")
    ignore = shutil.ignore_patterns(
        ".*cache", "__pycache__", ".git", ".try", ".test", ".hypothesis"
    )
    for name in (
        "graphshare",
        "schemas",
        ".ci",
        ".pre-commit-hooks.yaml",
        "action.yml",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    ):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignore)
        else:
            shutil.copy(source, folder)
    for command in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "all"]):
        made = run(*_GIT, *command, cwd=folder)
        assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(autouse=True)
def asked_for(request: pytest.FixtureRequest) -> None:
    """What builds environments of its own takes half a minute, and is for CI."""
    if "package" in request.fixturenames and "network" not in os.environ.get(
        "GRAPHSHARE_REQUIRE", ""
    ):
        missing("network", "fetches packages: set GRAPHSHARE_REQUIRE=network")


def refuse_without_network(said: str) -> None:
    if re.search(
        r"No matching distribution|Temporary failure in name resolution|Connection (refused|error)|Max retries",
        said,
    ):
        missing("network", "packages cannot be fetched here")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Somebody's repository with a sound file in it."""
    (tmp_path / "net-symbol.json").write_bytes(graph_bytes(RULES["GS303"].passes))
    (tmp_path / "other.json").write_text("{}")
    assert run(*_GIT, "init", "-q", cwd=tmp_path).returncode == 0
    return tmp_path


def test_the_pre_commit_hook(package: Path, project: Path) -> None:
    tool = shutil.which("pre-commit") or shutil.which(
        "pre-commit", path=str(Path(sys.executable).parent)
    )
    if tool is None:
        missing("pre-commit", "pre-commit is not installed: pip install '.[test]'")
    revision = run("git", "rev-parse", "HEAD", cwd=package).stdout.strip()
    hooks = "\n".join(f"      - id: graphshare-{what}" for what in ("check",))
    config = f"repos:\n  - repo: {package}\n    rev: {revision}\n    hooks:\n{hooks}\n"
    (project / ".pre-commit-config.yaml").write_text(config)
    home = {"PRE_COMMIT_HOME": str(project.parent / f"{project.name}-home")}
    assert run(*_GIT, "add", "-A", cwd=project).returncode == 0
    passed = run(tool, "run", cwd=project, **home)
    refuse_without_network(passed.stdout + passed.stderr)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "Passed" in passed.stdout
    (project / "net-symbol.json").write_bytes(graph_bytes(RULES["GS303"].fails))
    installed = run(tool, "install", cwd=project, **home)
    assert installed.returncode == 0, installed.stderr
    assert run(*_GIT, "add", "-A", cwd=project).returncode == 0
    refused = run(*_GIT, "commit", "-q", "-m", "broken", cwd=project, **home)
    assert refused.returncode != 0
    assert "net-symbol.json" in refused.stderr + refused.stdout
    assert "GS303" in refused.stderr + refused.stdout


HOSTILE = "--write-baseline=x-symbol.json"
"""A file name that is an option to a command that does not keep names apart."""


def test_a_file_name_is_no_option_of_the_hook(project: Path) -> None:
    (project / HOSTILE).write_bytes(graph_bytes(RULES["GS303"].fails))
    entries = re.findall(
        r"^  entry: graphshare (.*)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.M
    )
    for entry in entries:
        done = run(
            sys.executable,
            "-m",
            "graphshare",
            *entry.split(),
            HOSTILE,
            cwd=project,
            PYTHONPATH=os.environ["PYTHONPATH"],
        )
        assert done.returncode == 1, done
        assert "GS303" in done.stdout
    assert sorted(path.name for path in project.iterdir()) == [
        HOSTILE,
        ".git",
        "net-symbol.json",
        "other.json",
    ]


def test_options_of_the_hook_come_from_the_configuration(project: Path) -> None:
    (project / "bad-symbol.json").write_bytes(graph_bytes(RULES["GS303"].fails))
    (entry, *_) = re.findall(
        r"^  entry: graphshare (.*)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.M
    )
    command = [sys.executable, "-m", "graphshare", *entry.split(), "bad-symbol.json"]
    assert run(*command, cwd=project, PYTHONPATH=os.environ["PYTHONPATH"]).returncode == 1
    (project / "graphshare.toml").write_text('[check]\nignore = ["GS303"]\n')
    assert run(*command, cwd=project, PYTHONPATH=os.environ["PYTHONPATH"]).returncode == 0


def test_all_that_the_action_installs_is_pinned() -> None:
    pinned = {
        re.split(r"==", line)[0].lower().replace("_", "-")
        for line in PINS
        if not line.startswith("#")
    }
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["onnx"]]
    needed, waiting = set(), [re.split(r"[<>=;~ \[]", name)[0] for name in wanted]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in needed:
            continue
        needed.add(name)
        for text in requires(name) or []:
            if "extra ==" not in text:
                waiting.append(re.split(r"[<>=;~!( \[]", text)[0])
    assert needed <= pinned
    assert all("==" in line for line in PINS if not line.startswith("#"))


@pytest.mark.parametrize("name", ["action.yml", ".pre-commit-hooks.yaml"])
def test_what_others_read_as_yaml_is_yaml(name: str) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is of the docs extra")
    assert yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def steps() -> list[tuple[dict[str, str], str]]:
    """The environment and the script of each step of ``action.yml``, which keeps to a form that
    needs no YAML reader.
    """
    found = []
    for part in re.split(r"^    - name: ", (ROOT / "action.yml").read_text(), flags=re.M)[1:]:
        names = dict(re.findall(r"^        ([A-Z_]+): \$\{\{ (.*?) \}\}$", part, re.M))
        script = part.partition("      run: |\n")[2]
        assert script
        assert "${{" not in script, "an expression inside a script lets a name be run as a command"
        found.append((names, textwrap.dedent(script)))
    return found


def use_action(
    package: Path, project: Path, temporary: Path, **inputs: str
) -> subprocess.CompletedProcess[str]:
    """The steps as the runner executes them: bash -e with pipefail, one after the other; what is installed stays so."""
    given = {"inputs.paths": ".", "inputs.args": "", "inputs.sarif": "", "inputs.python": sys.executable, "inputs.extras": "",
             "github.action_path": str(package), **{f"inputs.{key}": value for key, value in inputs.items()}}  # fmt: skip
    done = subprocess.CompletedProcess[str]([], 0, "", "")
    for names, script in steps()[(temporary / "graphshare").exists() :]:
        values = {name: given[expression] for name, expression in names.items()}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = run(
            *command, cwd=project, RUNNER_TEMP=str(temporary), GITHUB_ACTIONS="true", **values
        )
        if done.returncode:
            break
    return done


def advised(page: str) -> tuple[str, dict[str, str]]:
    """What the workflow on a page of the documentation uses beside the checkout, and with which inputs."""
    blocks = re.findall(
        r"^```yaml[^\n]*\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S
    )
    (found,) = [text for text in blocks if "uses:" in text]
    uses, given = re.findall(r"- uses: (\S+)\n +with: \{(.*)\}\n", found)[-1]
    return uses, dict(re.findall(r'(\w+): "?([^",]*)"?', given))


def test_the_action_as_the_documentation_uses_it(
    package: Path, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    uses, inputs = advised("docs/tutorials/ci.md")
    assert uses.startswith("./"), (
        "a path in the repository: the only place that a reader need not guess"
    )
    shutil.copytree(package, project / uses, ignore=shutil.ignore_patterns(".git"))
    (project / "models").mkdir()
    (project / "models" / "a-symbol.json").write_bytes(graph_bytes(RULES["GS303"].fails))
    run_of = use_action(project / uses, project, tmp_path_factory.mktemp("runner"), **inputs)
    refuse_without_network(run_of.stdout + run_of.stderr)
    assert run_of.returncode == 1, run_of.stdout + run_of.stderr
    assert run_of.stdout.startswith("::error file=models/a-symbol.json,line=5,")
    assert run_of.stdout.endswith("graphshare check: 1 file: 1 error\n")


def test_the_action_runs_nothing_of_the_checkout_and_finds_what_is_wrong(
    package: Path, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    temporary = tmp_path_factory.mktemp("runner")
    modules = [
        project / f"{module}.py" for module in ("venv", "pip", "graphshare", "click", "json")
    ]
    for module in modules:
        module.write_text("raise SystemExit('the checkout ran')")
    (project / HOSTILE).write_bytes(graph_bytes(RULES["GS303"].fails))
    done = use_action(package, project, temporary, paths=f"net-symbol.json\n{HOSTILE}")
    refuse_without_network(done.stdout + done.stderr)
    assert "the checkout ran" not in done.stdout + done.stderr
    assert done.returncode == 1, done.stdout + done.stderr
    assert "GS303" in done.stdout
    for path in (*modules, project / HOSTILE):
        path.unlink()
    passed = use_action(package, project, temporary)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert passed.stdout == "graphshare check: 1 file: no findings\n"
    (project / "a b-symbol.json").write_bytes(graph_bytes(RULES["GS303"].fails))
    failed = use_action(package, project, temporary, sarif="out.sarif", paths="*-symbol.json")
    assert failed.returncode == 1
    assert "::error file=a b-symbol.json,line=5," in failed.stdout
    log = json.loads((project / "out.sarif").read_text())
    assert find_violations(log, "sarif") == []
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["GS303"]
    assert (
        use_action(
            package,
            project,
            temporary,
            paths="net-symbol.json\na b-symbol.json",
            args="--ignore=GS303",
        ).returncode
        == 0
    )
    assert use_action(package, project, temporary, paths="none.json").returncode == 2


def test_the_hooks_are_commands() -> None:
    from graphshare.cli.main import run as graphshare

    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    for entry in re.findall(r"^  entry: graphshare (.*)$", text, re.M):
        assert entry.endswith(" --"), "a file name must never be an option"
        assert graphshare([*entry.split()[:-1], "--help"]) == 0
    pattern = re.findall(r"^  files: (.*)$", text, re.M)
    assert all(
        re.search(part, "models/net-symbol.json") and not re.search(part, "package.json")
        for part in pattern
    )
