"""The help of the commands: options in sections, and those that every command has."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from graphshare.cli.command import (
    DOES,
    IMAGES,
    RARE,
    READS,
    SECTIONS,
    TRAINING,
    WRITES,
    Command,
    list_sections,
)
from graphshare.cli.main import COMMANDS, CONTEXT, cli
from tests.processes import ROOT, done, environment, graphshare, in_process, refused

LENET = ROOT / "fixtures" / "lenet"
PREFIXED = ["duplicate", "rename", "params rename", "group", "verify", "diff", "draw"]


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", member) for inner, member in command.commands.items())
        else:
            yield name, command


@pytest.mark.parametrize(
    ("path", "command"), [pytest.param(*item, id=item[0]) for item in commands()]
)
def test_options_are_in_sections(path: str, command: click.Command) -> None:
    assert isinstance(command, Command)
    context = click.Context(command, **CONTEXT)
    sections = list_sections(command, context)
    assert list(sections) == [
        title for title in (READS, DOES, WRITES, IMAGES, TRAINING, RARE) if title in sections
    ]
    shown = [p for p in command.get_params(context) if isinstance(p, click.Option) and not p.hidden]
    listed = [option for options in sections.values() for option in options]
    assert len(listed) == len(set(listed)) == len(shown)
    assert listed[-1].opts == ["-h", "--help"]
    whole = "--help-all" if any("--help-all" in option.opts for option in listed) else "--help"
    text = done(graphshare(*path.split(), whole)).stdout.decode()
    places = [text.index(f"\n{title}:\n") for title in sections]
    assert places == sorted(places)
    assert "\nOptions:\n" not in text
    assert re.search(r"\[\d*<?=?x[<>]", text) is None, "bounds of numbers are for errors"


def test_an_option_that_names_a_file_is_what_is_read_or_written() -> None:
    for path, command in commands():
        for option in list_sections(command, click.Context(command, **CONTEXT)).get(DOES, []):
            assert option.metavar not in ("FILE", "OUT", "GRAPH", "NAME=FILE"), (path, option.opts)


def test_the_sections_name_options_that_exist() -> None:
    flags = {
        flag for _, command in commands() for param in command.params for flag in param.opts
    } | {"--help"}
    assert [flag for options in SECTIONS.values() for flag in options if flag not in flags] == []


@pytest.mark.parametrize("path", PREFIXED)
def test_the_prefix_has_a_short_form(path: str) -> None:
    assert "  -p, --prefix P" in done(graphshare(*path.split(), "--help")).stdout.decode()


def test_every_prefix_is_among_them() -> None:
    assert {
        path
        for path, command in commands()
        if any("--prefix" in param.opts for param in command.params)
    } == {*PREFIXED}


def test_quiet_leaves_warnings_errors_and_results(tmp_path: Path) -> None:
    run = done(graphshare("duplicate", LENET, "-p", "b-", "-o", "two", "-q", cwd=tmp_path))
    assert run.stderr == b""
    assert (tmp_path / "two-0000.params").exists()
    line = ["run", LENET, "--seed", "0", "--shape", "data=1,1,28,28"]
    loud, quiet = done(graphshare(*line)), done(graphshare(*line, "--quiet"))
    assert b"computed in" in loud.stderr
    assert quiet.stderr == b""
    assert quiet.stdout == loud.stdout
    line = [
        "rename",
        ROOT / "fixtures" / "nin-symbol.json",
        "--params",
        LENET.with_name("lenet-0000.params"),
        "-p",
        "b-",
    ]
    warned = graphshare(*line, "-o", "x", "-q", cwd=tmp_path)
    assert b"warning: " in warned.stderr or b"error: " in warned.stderr
    assert b"error: " in graphshare("inspect", "none.json", "-q", cwd=tmp_path).stderr


@pytest.mark.parametrize("path", ["", "params", *(path for path, _ in commands())])
def test_every_command_shows_all_of_its_help_on_request(path: str) -> None:
    whole = done(in_process(*path.split(), "--help-all")).stdout.decode()
    text = done(in_process(*path.split(), "--help")).stdout.decode()
    assert ("--help-all" in text) == (whole != text)


def test_numbers_are_finite() -> None:
    for words in ("compare a b --rtol", "export a -o b.onnx --tolerance", "run a --time-limit"):
        for number in ("nan", "inf", "-inf"):
            refused(in_process(*words.split(), number), words.split()[-1])


def test_messages_name_the_program_as_it_was_called() -> None:
    called = [sys.executable, "-m", "graphshare"]
    said = {
        words[-1]: subprocess.run(
            [*called, *words], capture_output=True, text=True, check=False, env=environment()
        ).stderr
        for words in (["duplicat", "lenet"], ["diff", "one"], ["inspect", "lenet", "--shap"])
    }
    name = shlex.join(called)
    assert f"write `{name} duplicate lenet`" in said["lenet"]
    assert f"write `{name} diff A B`" in said["one"]
    assert f"see `{name} inspect --help`" in said["--shap"]
    assert "`graphshare inspect --help`" in refused(graphshare("inspect", "lenet", "--shap"))
