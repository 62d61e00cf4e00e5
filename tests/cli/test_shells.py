"""Completion in the shells themselves: the script as a user loads it, the tabulator as a user presses it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import pytest

from graphshare.cli.commands.completion import complete_names
from tests.processes import COMMAND, ROOT, environment
from tests.surroundings import missing

# Both show the line when control and T are pressed.
SET_UP = {
    "bash": """PS1='$ '; bind 'set bell-style none'; eval "$(graphshare completion bash)"
        show() { printf '<<%s>>\\n' "$READLINE_LINE"; }; bind -x '"\\C-t": show'""",
    "zsh": """PS1='$ '; autoload -Uz compinit; compinit -u -D; eval "$(graphshare completion zsh)"
        show() { print -r -- "<<$BUFFER>>" }; zle -N show; bindkey '^T' show""",
}
START = {"bash": ["bash", "--rcfile", "bash-set-up", "-i"], "zsh": ["zsh", "-i"]}

# What is typed, and what stands there after the tabulator. A blank at the end: nothing is left open.
LINES = [
    ("graphshare ext", "graphshare extract "),
    ("graphshare params sta", "graphshare params stats "),
    ("graphshare --color=n", "graphshare --color=never "),
    ("graphshare duplicate lenet --mo", "graphshare duplicate lenet --mode "),
    ("graphshare duplicate lenet --mode t", "graphshare duplicate lenet --mode tie "),
    ("graphshare draw lenet --to=s", "graphshare draw lenet --to=svg "),
    ("graphshare inspect lenet-s", "graphshare inspect lenet-symbol.json "),
    ("graphshare inspect folder/le", "graphshare inspect folder/lenet"),
    ("graphshare inspect fol", "graphshare inspect folder/"),
    ("graphshare run lenet --params=lenet-0", "graphshare run lenet --params=lenet-0000.params "),
    ("graphshare extract lenet --target fc1_", "graphshare extract lenet --target fc1_output "),
    (
        "graphshare duplicate lenet --mode tie --copy fc2_b",
        "graphshare duplicate lenet --mode tie --copy fc2_bias ",
    ),
    (
        "graphshare run lenet-symbol.json --shape d",
        "graphshare run lenet-symbol.json --shape data=",
    ),
    (
        "graphshare params show lenet-0000.params --select conv1_b",
        "graphshare params show lenet-0000.params --select conv1_bias ",
    ),
    (
        "graphshare extract scoped --target a:b:fc1_",
        "graphshare extract scoped --target a:b:fc1_output ",
    ),
    ("graphshare extract lenet --target nothing", "graphshare extract lenet --target nothing"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint, one more in a folder, a graph with a colon in names, and the command."""
    for place in (tmp_path, tmp_path / "folder"):
        place.mkdir(exist_ok=True)
        for name in ("lenet-symbol.json", "lenet-0000.params"):
            shutil.copy(ROOT / "fixtures" / name, place)
    graph = json.loads((tmp_path / "lenet-symbol.json").read_bytes())
    for node in graph["nodes"]:
        node["name"] = f"a:b:{node['name']}"
    (tmp_path / "scoped-symbol.json").write_text(json.dumps(graph))
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "graphshare"
    command.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    command.chmod(0o755)
    return tmp_path


def surroundings(folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return environment(
        PATH=path,
        HOME=str(folder),
        ZDOTDIR=str(folder),
        XDG_CONFIG_HOME=str(folder),
        INPUTRC=os.devnull,
    )


class Typist:
    """An interactive shell with somebody at its terminal."""

    def __init__(self, shell: str, folder: Path) -> None:
        (folder / "bash-set-up").write_text(SET_UP["bash"])
        (folder / ".zshrc").write_text(SET_UP["zsh"])
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:  # pragma: no cover (the child)
            try:
                os.chdir(folder)
                os.execvpe(shell, START[shell], surroundings(folder))
            finally:
                os._exit(127)
        self._shown = ""
        self._until(r"\$ ")

    def completed(self, line: str) -> str:
        """What stands on the line after the tabulator."""
        os.write(self._terminal, f"{line}\t\x14".encode())
        found = self._until(r"<<(.*?)>>")[1]
        os.write(self._terminal, b"\x15")  # clears the line
        return found

    def close(self) -> None:
        os.kill(self._pid, signal.SIGHUP)
        os.close(self._terminal)
        os.waitpid(self._pid, 0)

    def _until(self, pattern: str) -> re.Match[str]:
        """Reads on to a text, and leaves what comes behind it for later."""
        while (found := re.search(pattern, self._shown)) is None:
            ready, _, _ = select.select([self._terminal], [], [], 60)
            assert ready, self._shown
            self._shown += os.read(self._terminal, 1 << 16).decode("utf-8", "replace")
        self._shown = self._shown[found.end() :]
        return found


@pytest.fixture(params=["bash", pytest.param("zsh", marks=pytest.mark.large)])
def typist(request: pytest.FixtureRequest, folder: Path) -> Iterator[Typist]:
    shell: str = request.param
    if shutil.which(shell) is None:
        missing(shell, f"{shell} is not installed")
    typist = Typist(shell, folder)
    yield typist
    typist.close()


def test_a_line_is_completed(typist: Typist) -> None:
    assert {line: typist.completed(line) for line, _ in LINES} == dict(LINES)


MORE_OFFERS = {
    "graphshare inspect folder/le": [
        "folder/lenet",
        "folder/lenet-0000.params",
        "folder/lenet-symbol.json",
    ],
    "graphshare extract lenet --target fc": ["fc1_output", "fc2_output", "fc1", "fc2"],
    "graphshare duplicate lenet --mode ": ["copy", "tie", "batch"],
    "graphshare extract lenet --target nothing": [],
}


def offered_by_fish(folder: Path, lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """For each line what fish offers for its last word, with what it says of each."""
    script = (
        'graphshare completion fish | source; for line in $argv; echo ">>$line"; complete '
        '--do-complete "$line"; end'
    )
    command = ["fish", "--no-config", "-c", script, "--", *lines]
    run = subprocess.run(
        command, cwd=folder, env=surroundings(folder), capture_output=True, timeout=300, check=True
    )
    assert run.stderr == b""
    parts = (part.splitlines() for part in run.stdout.decode().split(">>")[1:])
    return {line: dict((*text.split("\t"), "")[:2] for text in offers) for line, *offers in parts}


@pytest.mark.large
def test_fish_offers_what_may_follow(folder: Path) -> None:
    if shutil.which("fish") is None:
        missing("fish", "fish is not installed")
    wanted = {
        line: [whole.rpartition(line.rpartition(" ")[0] + " ")[2].rstrip(" ")]
        for line, whole in LINES
    } | MORE_OFFERS
    described = "graphshare params sho"
    offers = offered_by_fish(folder, [*wanted, described])
    assert offers.pop(described)["show"].startswith("Show shape, type")
    assert {line: list(found) for line, found in offers.items()} == wanted


def test_each_value_is_completed_as_what_it_is() -> None:
    options = [
        click.Option([f"--{metavar.lower()}"], metavar=metavar)
        for metavar in ("FILE", "OUT", "GRAPH", "TEXT")
    ]
    arguments = [click.Argument([name]) for name in ("name", "graph", "left", "target")]
    command = click.Command(
        "x", params=[*options, click.Option(["--cut"]), click.Option(["--share-input"]), *arguments]
    )
    complete_names(click.Group("all", commands={"x": command}))
    kinds = [parameter.type.name for parameter in command.params]
    assert kinds == [
        "path",
        "path",
        "graph",
        "text",
        "name",
        "name",
        "name",
        "graph",
        "graph",
        "path",
    ]
