"""Options that a command passes on by name are keywords of the function that it calls."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import click
import pytest

import graphshare
from graphshare.cli import image_options, options
from graphshare.cli.commands import run
from graphshare.cli.main import cli

_API = {"params convert": graphshare.convert, "params diff": graphshare.diff_params}
_GATHERED = {
    "output": options._OUTPUT,
    "source": ("graph", "epoch", "params", "upgrade_first"),
    "images": image_options._NAMES,
    "given_training": run._TRAINING,
    "classes": ("top", "labels"),
}
"""Options that reach a command as one parameter."""


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
    return [option.name or "" for option in command.params if option.expose_value and option.name not in taken]


COMMANDS = {name: list_passed(command) for name, command in list_commands(cli)}


@pytest.mark.parametrize("name", [name for name, passed in COMMANDS.items() if passed])
def test_every_option_that_is_passed_on_is_a_keyword(name: str) -> None:
    function: Any = _API.get(name) or getattr(graphshare, name)
    assert set(COMMANDS[name]) <= inspect.signature(function).parameters.keys()


def test_options_are_passed_on() -> None:
    assert "rtol" in COMMANDS["verify"]
    assert sum(map(bool, COMMANDS.values())) > 10
