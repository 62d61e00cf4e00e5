"""The README's console blocks are what the commands say."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import COMMAND, ROOT, done, environment, graphshare

README = (ROOT / "README.md").read_text(encoding="utf-8")


def sessions() -> list[tuple[str, str]]:
    """Each command of the console blocks with what it prints."""
    text = "\n".join(re.findall(r"```console\n(.*?)```", README, re.S))
    parts = re.split(r"^\$ (.*)\n", text, flags=re.M)[1:]
    return [(command, said.strip()) for command, said in zip(parts[::2], parts[1::2], strict=True)]


def test_console_blocks(tmp_path: Path) -> None:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    found = sessions()
    assert len(found) >= 3
    for command, said in found:
        words = shlex.split(command)
        assert words[0] == "graphshare"
        run = graphshare(*words[1:], cwd=tmp_path)
        assert (run.stderr + run.stdout).decode().strip() == said, command


def test_python_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(blocks) == 4
    made: dict[str, object] = {}
    for block in blocks:
        exec(block, made)
    assert made["digits"].shape == (8, 10)  # type: ignore[attr-defined]
    steps = 1 - 0.1 * 2 - 0.01 - 0.1  # of both branches, of one, by hand
    session, weight = made["session"], made["weight"]
    assert session.value(weight).tolist() == [pytest.approx([steps, 2 * steps, 3 * steps])]  # type: ignore[attr-defined]
    assert sorted(path.name for path in tmp_path.glob("[cs]*")) == [
        "clones-0000.params",
        "clones-symbol.json",
        "siam-0000.params",
        "siam-symbol.json",
    ]
    clones = graphshare("inspect", "clones-symbol.json", cwd=tmp_path).stdout.decode()
    for name in ("clone0/net/x", "clone1/net/x", "net/fc/weights", "net/fc/biases"):
        assert name in clones


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def test_files_are_read_as_they_stand(tmp_path: Path) -> None:
    """The rules file says what the text says of it, the configuration holds."""
    (rules,) = blocks("json")
    (tmp_path / "rules.json").write_text(rules)
    done(graphshare("rules", "check", "rules.json", cwd=tmp_path))
    explained = graphshare("rules", "explain", "scope_b/shared_child/w", "--rules", "rules.json", cwd=tmp_path)
    assert b"scope_a/w" in done(explained).stdout
    (toml,) = blocks("toml")
    (tmp_path / "pyproject.toml").write_text(toml)
    (tmp_path / "known-findings.json").write_text("{}")
    shutil.copy(ROOT / "fixtures" / "lenet-symbol.json", tmp_path)
    run = graphshare("check", "lenet-symbol.json", cwd=tmp_path)
    assert run.returncode == 2
    assert b"known-findings.json" in run.stderr  # which is no baseline yet
    done(graphshare("check", "lenet-symbol.json", "--write-baseline", "known-findings.json", cwd=tmp_path))
    done(graphshare("check", "lenet-symbol.json", cwd=tmp_path))


def test_the_pipe(tmp_path: Path) -> None:
    (pipe,) = [text for text in blocks("sh") if "|" in text]
    shutil.copy(ROOT / "fixtures" / "nin-symbol.json", tmp_path)
    script = pipe.replace("graphshare ", f"{shlex.join(COMMAND)} ")
    run = subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=environment(), capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert b'"sha-conv1"' in (tmp_path / "siamese-nin.json").read_bytes()


def test_every_block_is_run_by_some_test() -> None:
    """Console, Python, JSON and TOML here, YAML by the test of the action, the set-up commands by CI."""
    languages = re.findall(r"^```(\w*)$", README, re.M)[::2]
    assert set(languages) == {"console", "python", "json", "toml", "yaml", "sh"}
    assert (len(blocks("sh")), len(blocks("yaml"))) == (3, 1)


def test_every_command_is_described() -> None:
    from graphshare.cli.app import COMMANDS

    for name in COMMANDS:
        assert re.search(rf"^\| `{name} ", README, re.M), name


def test_there_are_two_set_up_commands() -> None:
    assert len(re.findall(r"^python3 -m pip install .*--target", README, re.M)) == 2
