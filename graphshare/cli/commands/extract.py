"""``graphshare extract``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from graphshare.analysis.name_lists import NameLists
from graphshare.api.extract import extract
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import say
from graphshare.cli.output import format_name_list, say_written, write_result
from graphshare.errors import Fault, UsageError
from graphshare.text.format import format_count

EXAMPLES = {
    "extract": [
        (
            "the features of a classifier",
            "graphshare extract lenet --target fc1_output -o features",
        ),
        (
            "the outputs of several layers",
            "graphshare extract lenet --target 'pool*' --target fc1 -o inner",
        ),
        (
            "one of two models behind a switch",
            "graphshare extract both.onnx --branch exact=true -o exact.onnx",
        ),
        (
            "what follows an inner output",
            "graphshare extract lenet --cut pool2_output --target softmax_output -o top",
        ),
    ],
}
_VALUES = {"true": True, "false": False}


@click.command("extract", cls=Command)
@options.rewriting
@option(
    "--target",
    "targets",
    metavar="NAME",
    multiple=True,
    help="Compute this node or output, or all that match a glob.",
)
@option(
    "--cut",
    "cuts",
    metavar="NAME",
    multiple=True,
    help="Stop at this output, which becomes an input of the same name.",
)
@option(
    "--branch",
    metavar="NAME=true|false",
    callback=lambda context, option, text: None if text is None else _parse_branch(text),
    help="Replace each If on this input by one of its branches.",
)
@options.types("a target or cut")
@options.max_memory
@options.time_limit
def command(
    source: Checkpoint,
    targets: tuple[str, ...],
    cuts: tuple[str, ...],
    branch: tuple[str, bool] | None,
    types: dict[str, str],
    output: Mapping[str, Any],
) -> None:
    """Cut out the minimal subgraph for some outputs.

    NAME is an output (conv1_output), a node (conv1: all its outputs) or a glob ('conv*': the
    outputs of all operators that it matches; re:expression works too). Of several nodes of one name
    NAME#1 is the second, and NAME#0 the first. Without --target, --branch keeps all outputs.
    Parameters that are no longer needed are left out of the parameter file.
    """
    if not targets and branch is None:
        raise UsageError(
            Fault(
                "nothing to extract: --target is missing",
                hint="name an output with --target; `graphshare inspect` lists them",
            )
        )
    result = extract(source, targets, cuts=cuts, branch=branch, types=types)
    outputs = write_result(result, output)
    if outputs is not None:
        arguments = format_name_list(NameLists(result.graph).arguments)
        kept, whole = (
            graph.source.count_parts(graph.nodes) for graph in (result.graph, source.graph)
        )
        counts = " and ".join(
            f"{kept[what]} of {format_count(count, what)}" for what, count in whole.items()
        )
        # Its nodes come from a body, and the whole graph does not count them
        if branch is not None:
            counts = f"{result.graph.source.describe_parts(result.graph.nodes)} of the branch"
        say(
            f"kept {counts}; {'arguments' if len(whole) == 1 else 'inputs and initializers'} {arguments}"
        )
        say_written(outputs)


def _parse_branch(text: str) -> tuple[str, bool]:
    """Return the input and its value. Raises UsageError."""
    name, _, value = text.rpartition("=")
    if not name or value not in _VALUES:
        raise UsageError(
            Fault(
                f"--branch {text!r} is not an input with a value",
                hint="write --branch NAME=true or NAME=false",
            )
        )
    return name, _VALUES[value]
