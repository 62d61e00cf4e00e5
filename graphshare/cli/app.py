"""The command group. Commands are imported when called: ``--help`` must not wait for what it does not run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

import graphshare
from graphshare.cli.command import SuggestingGroup, add_examples
from graphshare.cli.console import choose_color

# Each command is the module of its name in graphshare.cli.commands. The text is the first line of its help, as a test checks;
# ``--help`` must not import the modules.
COMMANDS = {
    "duplicate": "Add branches on copied or tied parameters.",
    "share": "Tie parameters inside one graph.",
    "extract": "Cut out the minimal subgraph for some outputs.",
    "rename": "Give nodes other names, parameters along.",
    "group": "Join several graphs in one, parameters along.",
    "pool": "Put the weights of many ONNX models into one file, each once.",
    "fold": "Work BatchNorm into the weights before it, for inference.",
    "export": "Write a model as ONNX, tied weights stay tied, and prove it.",
    "unfix": "Leave sizes that an ONNX file fixes to its caller, proved.",
    "upgrade": "Write what MXNet 1.9.1 would write after loading the file.",
    "format": "Lay the file out anew, or check its layout.",
    "inspect": "Sum up inputs, outputs, parameters, costs and layers.",
    "run": "Compute a graph's outputs.",
    "verify": "Prove that branches compute the same.",
    "rules": "Explain and check sharing and naming rules.",
    "check": "Find faults in graphs and their parameter files.",
    "diff": "Show what differs between two graphs.",
    "draw": "Draw a graph as a page, SVG, Graphviz's language or Mermaid.",
    "foreach": "Run a command for every model that matches.",
    "completion": "Print the completion script of a shell.",
    "params": "List, compare, measure and convert parameter files.",
}


_COMPUTING = ("run", "verify")


def _start_sessions(arguments: Sequence[str]) -> None:
    """Start the process that computes ONNX models if an argument is one: it takes as long to start as this one."""
    from graphshare.files.byte_source import SAMPLE  # start-up: other commands do not wait for these
    from graphshare.formats.model_format import Capability, iter_formats

    for path in filter(os.path.isfile, arguments):
        with suppress(OSError), open(path, "rb") as file:
            start = file.read(SAMPLE)
            format_ = next((each for each in iter_formats() if each.fits(start)), None)
            if format_ is not None and not format_.supports(Capability.KERNELS):
                from graphshare.execute.engines.confined_session import start_process  # start-up: as above

                start_process()
                return


class LazyGroup(SuggestingGroup):
    """A group whose commands are modules that load on use."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in _COMPUTING:
            _start_sessions(args[1:])
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"graphshare.cli.commands.{cmd_name}").command
        add_examples(command, cmd_name)
        if ctx.resilient_parsing:  # the shell asks for completions
            from graphshare.cli.commands.completion import complete_names  # start-up: only a shell asks for them

            complete_names(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(graphshare.__version__, "-V", "--version", message="graphshare %(version)s")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to colour [auto].")
@click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")
def cli(color: str, debug: bool) -> None:
    """Share parameters inside serialized MXNet/NNVM graphs.

    GRAPH is a symbol file, - for stdin, or the stem of a checkpoint (nin for nin-symbol.json and nin-0000.params).

    Exit codes: 0 done or it holds, 1 the answer is no, 2 it could not be answered.
    """
    choose_color(color)
