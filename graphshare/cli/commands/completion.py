"""``graphshare completion``."""

from __future__ import annotations

import click

from graphshare.checkpoint.save import write_stdout
from graphshare.cli.command import Command
from graphshare.cli.completion_scripts import SCRIPTS

EXAMPLES = {
    "completion": [
        ("bash; put this line into ~/.bashrc", 'eval "$(graphshare completion bash)"'),
        ("zsh; into ~/.zshrc, behind compinit", 'eval "$(graphshare completion zsh)"'),
        ("fish; into ~/.config/fish/config.fish", "graphshare completion fish | source"),
    ],
}


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(list(SCRIPTS)))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    With it the shell completes commands, options, files, stems, and the names of the nodes of the graph that stands on the
    line already. bash needs version 4.4 or later.
    """
    write_stdout([SCRIPTS[shell].encode()])
