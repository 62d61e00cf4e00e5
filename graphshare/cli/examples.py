"""The examples of a command, which its module holds: the end of its ``--help``, of its page and of the manual.

A test runs each of them. They use ``lenet``, a checkpoint, and ``siam``, what the first example of ``duplicate`` makes of it.
"""

from __future__ import annotations

from importlib import import_module

import click


def examples_of(path: str) -> list[tuple[str, str]]:
    """Return what each example of a command (``params list``) shows, and its command line."""
    name = path.partition(" ")[0]
    examples: dict[str, list[tuple[str, str]]] = import_module(f"graphshare.cli.commands.{name}").EXAMPLES
    return examples.get(path, [])


def add_examples(command: click.Command, path: str) -> None:
    """Give a command, and those inside it, its examples as the end of its help."""
    examples = examples_of(path)
    if examples and not command.epilog:
        lines = [f"  # {what}\n  {line}" for what, line in examples]
        command.epilog = "\b\nExamples:\n" + "\n".join(lines)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            add_examples(inner, f"{path} {name}")
