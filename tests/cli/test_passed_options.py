"""Options that a command passes on by name are keywords of the function that it calls."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

import click
import pytest

import graphshare
from graphshare.cli import image_options, options
from graphshare.cli.command import AnswerFile
from graphshare.cli.commands import run
from graphshare.cli.main import cli
from graphshare.errors import UsageError
from tests.surroundings import ROOT

_API = {
    "params convert": graphshare.convert,
    "params diff": graphshare.diff_params,
    "params show": graphshare.show_params,
    "params stats": graphshare.measure_params,
    "params rename": graphshare.rename_params,
    "params tie": graphshare.tie_params,
    "params untie": graphshare.tie_params,
}
_GATHERED = {
    "output": options._OUTPUT,
    "source": ("graph", "epoch", "params", "upgrade_first"),
    "sides": ("model", "other", "epoch", "params", "other_params"),
    "images": image_options._NAMES,
    "feeds": image_options._NAMES,
    "given_training": run._TRAINING,
    "classes": ("top", "labels"),
    "inputs": ("params_seed", "as_input", "sets", "rounds", "seed"),
    "tolerance": ("atol", "rtol"),
}
"""Options that reach a command as one parameter."""
_PASSED = {
    "verify": ("inputs", "tolerance"),
    "compare": ("inputs", "tolerance"),
    "export": ("feeds",),
}
"""Those of them that a command passes on as they are."""


def list_commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from list_commands(command, f"{name} ")
        elif command is not None:
            yield f"{path}{name}", command


def list_passed(command: click.Command) -> list[str]:
    """Return the options of a command that it has no parameter for; none where it takes no others."""
    assert command.callback is not None
    parameters = inspect.signature(command.callback).parameters
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return []
    taken = {*parameters, *(name for key in parameters for name in _GATHERED.get(key, ()))}
    passed = [
        option.name or ""
        for option in command.params
        if option.expose_value and option.name not in taken and not isinstance(option, AnswerFile)
    ]
    kept = _PASSED.get(command.name or "", ())
    objects = {name: key for key in kept for name in _GATHERED[key]}
    return [objects.get(name, name) for name in passed]


COMMANDS = {name: list_passed(command) for name, command in list_commands(cli)}


@pytest.mark.parametrize("name", [name for name, passed in COMMANDS.items() if passed])
def test_every_option_that_is_passed_on_is_a_keyword(name: str) -> None:
    function: Any = _API.get(name) or getattr(graphshare, name)
    assert set(COMMANDS[name]) <= inspect.signature(function).parameters.keys()


def test_options_are_passed_on() -> None:
    assert {"layers", "inputs", "tolerance"} <= {*COMMANDS["verify"]} & {*COMMANDS["compare"]}
    assert sum(map(bool, COMMANDS.values())) > 10


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ["--seed", "1", "--seed", "2"],
            "--seed is given twice: as '1' and as '2'",
            "give --seed once",
        ),
        (["--rgb", "--bgr"], "--rgb and --bgr cannot be combined", "leave one of them out"),
        (
            ["--rgb", "--seed", "1", "--gray"],
            "--rgb and --gray cannot be combined",
            "leave one of them out",
        ),
    ],
)
def test_two_values_of_an_option_that_takes_one_are_refused(
    words: list[str], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as raised:
        cli.main(["run", "net", *words], standalone_mode=False)
    assert [(fault.message, fault.hint) for fault in raised.value.faults] == [(message, hint)]


def test_a_value_that_is_repeated_is_one_value(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(
        ["check", f"{ROOT}/fixtures/lenet-symbol.json", "--format", "json", "--format", "json"],
        standalone_mode=False,
    )
    assert json.loads(capsys.readouterr().out)["findings"] == []


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ["chekc", "a b"],
            "no such command 'chekc'; did you mean 'check'?",
            "write `graphshare check 'a b'`",
        ),
        (
            ["help", "run", "net"],
            "no such command 'help'; did you mean `graphshare run --help`?",
            "see `graphshare --help`",
        ),
        (
            ["version", "run"],
            "no such command 'version'; did you mean `graphshare --version`?",
            "see `graphshare --help`",
        ),
        (
            ["params", "lits", "x"],
            "no such command 'lits'; did you mean 'list'?",
            "write `graphshare params list x`",
        ),
        (["zzzz"], "no such command 'zzzz'", "see `graphshare --help`"),
    ],
)
def test_the_hint_of_a_misspelt_command_can_be_typed(
    words: list[str], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as raised:
        cli.main(words, prog_name="graphshare", standalone_mode=False)
    assert [(fault.message, fault.hint) for fault in raised.value.faults] == [(message, hint)]
