"""``graphshare completion``."""

from __future__ import annotations

import click

from graphshare.cli.app import cli
from graphshare.workflows.results import write_stdout

_VARIABLE = "_GRAPHSHARE_COMPLETE"


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    With it the shell completes commands, options, files, stems, and the names of the nodes of the graph that stands on the
    line already. bash needs version 4.4 or later.
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    script = made(cli, {}, "graphshare", _VARIABLE)
    text = script.source_template % script.source_vars()
    write_stdout([text.encode()])
