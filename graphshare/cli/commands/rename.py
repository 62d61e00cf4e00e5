"""``graphshare rename``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import click

from graphshare.api.load_rules import make_ruleset
from graphshare.api.rename import rename
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import options, rule_options
from graphshare.cli.command import Command, option
from graphshare.cli.console import say
from graphshare.cli.output import list_inputs, say_written, write_result
from graphshare.ir.graph import Node
from graphshare.rewrite.rules.model import Boundary, Only, matches_of_options, renames_of_arguments
from graphshare.text.format import format_count

EXAMPLES = {
    "rename": [
        ("one input of an ONNX model", "graphshare rename model.onnx data=image -o net.onnx"),
        ("one name", "graphshare rename lenet data=image -o net1"),
        ("two names exchanged", "graphshare rename lenet pool1=pool2 pool2=pool1 -o swapped"),
        ("a prefix for everything", "graphshare rename lenet --prefix net1_ -o net1"),
        (
            "all names but those that callers use",
            "graphshare rename lenet --prefix net1_ --keep inputs --keep outputs -o net1",
        ),
        ("parameters alone", "graphshare rename lenet --prefix old_ --only parameters -o old"),
    ],
}


@click.command("rename", cls=Command)
@options.rewriting
@click.argument("renames", metavar="OLD=NEW...", nargs=-1)
@rule_options.prefix
@rule_options.strip_prefix
@rule_options.names_file
@option(
    "--inverse",
    is_flag=True,
    help="Undo the renames of --map; this restores the original file byte for byte.",
)
@rule_options.matches
@rule_options.targets
@rule_options.variable_scopes
@rule_options.name_scopes
@rule_options.rules
@rule_options.separator
@option("--only", type=click.Choice(get_args(Only)), multiple=True, help="Rename only these.")
@option(
    "--keep",
    type=click.Choice(get_args(Boundary)),
    multiple=True,
    help="Leave the names of these as they are.",
)
def command(
    source: Checkpoint,
    renames: tuple[str, ...],
    match: tuple[str, ...],
    to: tuple[str, ...],
    rules: str | None,
    output: Mapping[str, Any],
    **settings: Any,
) -> None:
    """Rename nodes and their parameters.

    OLD=NEW renames what is called OLD, whatever characters are in it; \\= stands for an = in OLD.
    Names inside subgraphs stay as they are: they are bound by position. A name that would collide
    with another is refused. Each * in --to stands for the text that the next * of the pattern
    matched. Of several rules for one name the last wins; swaps work. Of several nodes of one name
    NAME#1 is the second, and NAME#0 the first.
    """
    own_rules = [*matches_of_options(match, to), *renames_of_arguments(renames)]
    result = rename(
        source, make_ruleset(rules, own_rules) if own_rules or rules else None, **settings
    )
    outputs = write_result(
        result, output, inputs=[*list_inputs("map", settings["map"]), *list_inputs("rules", rules)]
    )
    if outputs is not None and result.rewrite is not None:
        branch = result.rewrite.branches[0]
        names = [(_list_names(node), _list_names(image)) for node, image in branch.images.items()]
        changed = sum(old != new for pair in names for old, new in zip(*pair, strict=True))
        nouns = branch.source.source.count_parts(branch.source.nodes)
        say(
            f"renamed {changed} of "
            f"{format_count(sum(len(old) for old, _ in names), 'node' if len(nouns) == 1 else 'value')}"
        )
        say_written(outputs)


def _list_names(node: Node) -> Sequence[str]:
    """Return the names of an ONNX operator's values, the name of any other node."""
    return (node.name,) if not node.name else node.details.outputs or (node.name,)
