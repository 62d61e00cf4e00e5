"""``graphshare duplicate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from graphshare.checkpoint.load import load_checkpoint, refusals_of
from graphshare.checkpoint.parameter_plan import check_belongs, held_names, notes_on
from graphshare.cli import options
from graphshare.cli.console import say
from graphshare.cli.emit import deliver
from graphshare.cli.summary import say_branches
from graphshare.errors import Fault, UsageError
from graphshare.formats.params.records import ParameterFile
from graphshare.rewrite.duplicate_plan import Choice, plan_duplicate
from graphshare.text.names import split_pair


class _KeepsOrder(click.Command):
    """A command in which ``--tie`` and ``--copy`` are one list: click itself keeps the order within each option only."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values, _, order = self.make_parser(ctx).parse_args(list(args))
        tie, copy = iter(values.get("tie", ())), iter(values.get("copy", ()))
        names = [parameter.name for parameter in order if parameter.name in ("tie", "copy")]
        ctx.meta["choices"] = [Choice("tie", next(tie)) if name == "tie" else Choice("copy", next(copy)) for name in names]
        return super().parse_args(ctx, args)


@click.command(cls=_KeepsOrder)
@options.rewriting
@click.option(
    "--prefix", "prefixes", metavar="P", multiple=True, required=True, help="Prefix of a new branch; repeat for more."
)
@click.option("--mode", type=click.Choice(["copy", "tie", "batch"]), default="copy", help="What becomes of parameters [copy].")
@click.option("--tie", metavar="PATTERN", multiple=True, help="Share these parameters; the last match wins.")
@click.option("--copy", metavar="PATTERN", multiple=True, help="Copy these parameters; the last match wins.")
@click.option(
    "--share-input", "share_inputs", metavar="PATTERN", multiple=True, help="Inputs and labels that all branches use."
)
@click.option("--upto", metavar="NAME", multiple=True, help="Copy only what this output needs; the original keeps its heads.")
@click.option("--drop-original", is_flag=True, help="Leave the copies alone in the graph.")
@click.option(
    "--batch-axis", "batch_axes", metavar="NAME=1", multiple=True, help="Mode batch: the axis of this input's samples [0]."
)
@click.option("--force", is_flag=True, help="Mode batch: also where operators depend on the batch as a whole.")
@click.option("--verify", "verify_first", is_flag=True, help="Compare the branches' values before anything is written.")
@click.option("--upgrade", "upgrade_first", is_flag=True, help="Upgrade the graph to MXNet 1.9.1 first.")
@options.as_input
@options.as_parameter
@click.pass_context
def duplicate(
    ctx: click.Context,
    /,
    graph: str,
    epoch: int | None,
    params: str | None,
    prefixes: tuple[str, ...],
    mode: Any,
    share_inputs: tuple[str, ...],
    upto: tuple[str, ...],
    drop_original: bool,
    batch_axes: tuple[str, ...],
    force: bool,
    verify_first: bool,
    upgrade_first: bool,
    as_input: tuple[str, ...],
    as_parameter: tuple[str, ...],
    **delivery: Any,
) -> None:
    """Add branches on copied or tied parameters.

    Every --prefix adds a branch whose nodes bear it; the graph's heads are the original's, then each branch's in turn. In
    mode copy every branch has parameters of its own, which start equal; in mode tie all use one set. Mode batch runs the graph
    once on the inputs of all branches, joined on the axis of the samples; operators that mix samples are refused by name.

    Patterns are globs; =name is a literal name.
    """
    axes = _batch_options(mode, ctx.meta["choices"], upto, batch_axes, force)
    source = load_checkpoint(graph, epoch=epoch, params=params)
    first = None
    if upgrade_first:  # imported where they are asked for: starting is most of the time that a usual graph takes
        from graphshare.rewrite.upgrade_plan import upgraded

        first = upgraded(source)
    start = first.graph if first else source.graph
    common: dict[str, Any] = {"share_inputs": share_inputs, "drop_original": drop_original}
    common |= {"as_input": as_input, "as_parameter": as_parameter, "held": held_names(source.params)}
    with refusals_of(source):
        check_belongs(source.params, start)
        if mode == "batch":
            from graphshare.rewrite.batch_plan import plan_batch

            made = plan_batch(start, prefixes, axes=axes, force=force, **common)
        else:
            made = plan_duplicate(start, prefixes, mode=mode, choices=ctx.meta["choices"], upto=upto, **common)
    rewrite = first.then(made.rewrite) if first else made.rewrite
    done = options.delivery(delivery)
    notes = [*made.notes, *notes_on(source.params, start, made.roles)]

    def proof(written: ParameterFile | None) -> None:
        from graphshare.verification.verify import prove_branches

        say(prove_branches(rewrite.graph, written, prefixes))

    needed = bool(made.copied or rewrite.renames)
    outputs = deliver(rewrite, source, done, needs_params_out=needed, notes=notes, proof=proof if verify_first else None)
    if not done.dry_run:
        say_branches(made, rewrite, outputs, source)


def _batch_options(
    mode: str, choices: Sequence[Choice], upto: Sequence[str], batch_axes: Sequence[str], force: bool
) -> dict[str, int]:
    """The axes by name, from options that are for mode batch.

    Raises:
        UsageError: options do not go with the mode, or are no axes; all are listed.
    """
    faults = []
    if mode != "batch":
        given = [option for option, value in (("--batch-axis", batch_axes), ("--force", force)) if value]
        faults = [Fault(f"{option} is for --mode batch") for option in given]
    elif choices:
        faults.append(Fault("--tie and --copy choose between modes; a batch has one run and one set of parameters"))
    if mode == "batch" and upto:
        hint = "cut it out first: graphshare extract GRAPH --target NAME"
        faults.append(Fault("--upto leaves the original as it is; a batch is one run of the whole graph", hint=hint))
    axes: dict[str, int] = {}
    for text in batch_axes:
        name, value = split_pair(text) or ("", "")
        if not name or not value.isdecimal() or len(value) > 2:
            faults.append(Fault(f"--batch-axis {text!r} is no axis", hint="write --batch-axis data=1"))
        else:
            axes[name] = int(value)
    if faults:
        raise UsageError(faults)
    return axes
