"""Texts of help pages as Markdown: an option is code with its value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import click

_CODE = re.compile(
    r"(`[^`]*`)|(?<![\w-])(--[a-z][a-z-]*|__\w+__)(?!\w)(?: (?P<value>'[^']+'|[\w./:=,*-]*[\w=/*]))?"
)

FREE_VALUES = {
    "--engine": ("numpy", "onnxruntime", "auto", "numpy,onnxruntime"),
    "--layout": ("mxnet", "compact"),
}
"""Values that the help names of options without a list of choices."""


def list_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command by its path (``params show``), those of a group after the group."""
    from graphshare.cli.main import COMMANDS, cli

    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", member) for inner, member in command.commands.items())


@cache
def list_values() -> dict[str, frozenset[str]]:
    """Return the words that may follow each option as its value: choices, names of values, and parts of these."""
    values: dict[str, frozenset[str]] = {
        flag: frozenset(words) for flag, words in FREE_VALUES.items()
    }
    for _, command in list_commands():
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag:
                continue
            words = {"N", "FILE", "NAME", option.metavar or ""}
            words |= set(option.type.choices) if isinstance(option.type, click.Choice) else set()
            for flag in option.opts:
                values[flag] = values.get(flag, frozenset()) | words
    return values


def to_markdown(text: str) -> str:
    """Return text of a help page as Markdown: options, with their values, and hidden attributes are
    code, a star is a star.
    """

    def mark(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        value = match["value"]
        if not value:
            return f"`{match[2]}`"
        known = list_values().get(match[2], frozenset())
        is_value = value in known or (
            bool(known) and (value[0] in "'0123456789" or value.isupper() or "=" in value)
        )
        return f"`{match[2]} {value}`" if is_value else f"`{match[2]}` {value}"

    parts = re.split("(`[^`]*`)", _CODE.sub(mark, text))
    return "".join(
        part if i % 2 else part.replace("|", " or ").replace("*", r"\*")
        for i, part in enumerate(parts)
    )
