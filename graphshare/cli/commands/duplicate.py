"""``graphshare duplicate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import click
from msgspec.structs import replace

from graphshare.api.duplicate import duplicate
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import say
from graphshare.cli.output import say_branches, write_result
from graphshare.errors import DisprovedError, Fault, GraphshareError, MemoryLimitError
from graphshare.rewrite.choices import ModeOrBatch


class _KeepsOrder(Command):
    """``--tie`` and ``--copy`` form one list: click keeps the order only within each option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = self.spell_out(args)
        values, _, order = self.make_parser(ctx).parse_args(list(args))
        tie, copy = iter(values.get("tie", ())), iter(values.get("copy", ()))
        names = [parameter.name for parameter in order if parameter.name in ("tie", "copy")]
        rest = super().parse_args(ctx, args)
        ctx.params["choices"] = [(name, next(tie if name == "tie" else copy)) for name in names]
        return rest


EXAMPLES = {
    "duplicate": [
        (
            "a siamese network on one set of parameters",
            "graphshare duplicate lenet --prefix sha- --mode tie -o siam",
        ),
        (
            "the last layer apart, all else shared",
            "graphshare duplicate lenet --prefix b- --mode tie --copy 'fc2*' -o heads",
        ),
        ("show the plan", "graphshare duplicate lenet --prefix sha- --dry-run"),
    ],
}


@click.command("duplicate", cls=_KeepsOrder)
@options.rewriting
@option(
    "-p",
    "--prefix",
    "prefixes",
    metavar="P",
    multiple=True,
    required=True,
    help="Prefix of a new branch.",
)
@option(
    "--mode",
    type=click.Choice(get_args(ModeOrBatch)),
    default="copy",
    help="Copy the parameters, tie them, or run all branches as one batch [copy].",
)
@option(
    "--tie",
    metavar="PATTERN",
    multiple=True,
    expose_value=False,
    help="Tie these parameters; of --tie and --copy the last match wins.",
)
@option(
    "--copy",
    metavar="PATTERN",
    multiple=True,
    expose_value=False,
    help="Copy these parameters; of --tie and --copy the last match wins.",
)
@option(
    "--share-input",
    "share_inputs",
    metavar="PATTERN",
    multiple=True,
    help="Inputs and labels that all branches share.",
)
@option(
    "--upto",
    metavar="NAME",
    multiple=True,
    help="Copy only the part that this output needs; the original keeps its heads.",
)
@option("--drop-original", is_flag=True, help="Remove the original branch.")
@option(
    "--batch-axis",
    "batch_axes",
    metavar="NAME=1",
    multiple=True,
    callback=lambda context, option, texts: _parse_axes(texts),
    help="Mode batch: the batch axis of this input [0].",
)
@option(
    "--force", is_flag=True, help="Mode batch: accept operators that mix the samples of a batch."
)
@option(
    "--verify",
    "verify_first",
    is_flag=True,
    help="Compare the branches' values before anything is written.",
)
@options.upgrade_first
@options.as_input
@options.as_parameter
@options.max_memory
@options.time_limit
def command(
    source: Checkpoint,
    prefixes: tuple[str, ...],
    verify_first: bool,
    output: Mapping[str, Any],
    **settings: Any,
) -> None:
    """Add branches with copied or tied parameters (see also share).

    Every --prefix adds a branch whose nodes have it; the graph's heads are the original's, then
    each branch's in turn. In mode copy every branch has parameters of its own, which start equal;
    in mode tie all use one set. Mode batch runs the graph once on the inputs of all branches,
    concatenated on the batch axis; operators that mix samples are refused by name.

    Patterns are globs; =name is a literal name, re:expression a regular expression.
    """
    result = duplicate(source, prefixes, **settings)
    if verify_first and not output["dry_run"]:
        say(_verify(result, prefixes))
    outputs = write_result(result, output)
    if outputs is not None:
        say_branches(result, outputs)


def _parse_axes(texts: Sequence[str]) -> dict[str, int]:
    """Return the batch axes by name. Raises UsageError for texts that are not ``NAME=AXIS``; all
    are listed.
    """
    pairs = options.parse_pairs(
        texts, "--batch-axis is not NAME=AXIS", "write --batch-axis data=1", _is_axis
    )
    return {name: int(axis) for name, axis in pairs}


def _is_axis(pair: tuple[str, str]) -> bool:
    name, axis = pair
    return bool(name) and axis.isdecimal() and len(axis) <= 2


def _verify(model: Checkpoint, prefixes: Sequence[str]) -> str:
    """Compare the branches and return the verdict; without a parameter file parameters are drawn.

    Raises:
        DisprovedError: a branch differs; every difference is listed.
        GraphshareError: values of inputs are missing; `graphshare verify` accepts them.
    """
    from graphshare.api.verify import verify  # start-up: imports numpy
    from graphshare.verification.findings import list_failures
    from graphshare.verification.inputs import Inputs

    inputs = Inputs(params_seed=0 if model.parameter_file is None else None)
    try:
        report = verify(model, prefixes=prefixes, inputs=inputs)
    except (
        GraphshareError
    ) as error:  # hints name options of `verify`, because this command lacks them
        if isinstance(error, MemoryLimitError):  # this command has its option
            raise
        end = (
            "without --verify the result is written, and `graphshare verify`, which has these "
            "options, compares its branches"
        )
        raise type(error)(
            [replace(f, hint="; ".join(filter(None, (f.hint, end)))) for f in error.faults]
        ) from None
    if not report:
        raise DisprovedError(
            [Fault(fault.message, hint="nothing was written") for fault in list_failures(report)]
        )
    return report.verdict
