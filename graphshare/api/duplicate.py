"""``duplicate``: add branches on copied or tied parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from graphshare.arguments import Natural
from graphshare.checkpoint.load import Model, Names, as_checkpoint, as_names, find_roles
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import Fault, RefusedError, UsageError, locate_refusals
from graphshare.formats.model_format import Capability, find_format, require
from graphshare.ir.graph import Graph
from graphshare.rewrite.choices import Duplication, Mode, ModeOrBatch
from graphshare.rewrite.duplicate import plan_duplicate
from graphshare.text.format import format_count


def duplicate(
    model: Model,
    prefixes: Names,
    *,
    mode: ModeOrBatch = "copy",
    choices: Sequence[tuple[Mode, str]] = (),
    share_inputs: Names = (),
    upto: Names = (),
    drop_original: bool = False,
    batch_axes: Mapping[str, Natural] = MappingProxyType({}),
    force: bool = False,
    as_input: Names = (),
    as_parameter: Names = (),
) -> Checkpoint:
    """Add a branch for each of ``prefixes``, with parameters of its own or on one set of parameters.

    The ``mode`` ``copy`` gives every branch its own parameters, which start equal; ``tie`` makes all branches use one set;
    ``batch`` runs the graph once on the inputs of all branches, concatenated along ``batch_axes`` (axis 0 unless named).
    ``choices`` (pairs such as ``("tie", "conv*")``) change the mode of some parameters; the last match wins. ``share_inputs``
    are patterns of inputs and labels that all branches use. ``upto`` names outputs: the copies hold what these need.
    ``drop_original`` leaves only the copies. ``force`` allows a batch over operators that mix its samples. ``as_input`` and
    ``as_parameter`` name variables whose role cannot be inferred.

    Raises:
        UsageError: options that do not go with the mode.
        RefusedError: names collide, a pattern matches nothing or the wrong kind, a target is unknown, a variable's role cannot
            be told, or operators mix the samples of a batch; all of a kind are listed.
    """
    source, names = as_checkpoint(model), as_names(prefixes)
    _check_mode(mode, choices, as_names(upto), batch_axes, force)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        if not names:
            raise RefusedError(Fault("no branch is asked for", hint="give a prefix for each copy, as in `prefixes='sha-'`"))
        roles = find_roles(source, as_input, as_parameter, {"`batch_axes`": batch_axes})
        common: dict[str, Any] = {"share_inputs": as_names(share_inputs), "drop_original": drop_original}
        if mode == "batch":  # imported where it is asked for: starting is most of the time that a usual graph takes
            from graphshare.rewrite.batch import plan_batch

            require(source.graph, Capability.BATCH, what="`mode='batch'`")
            report = plan_batch(source.graph, names, roles, axes=batch_axes, force=force, **common)
        else:
            report = plan_duplicate(
                source.graph, names, roles, mode=mode, choices=choices, upto=as_names(upto), held=source.held, **common
            )
    notes = [*report.notes, *notes_on(source.parameter_file, source.graph, report.roles)]
    if mode != "batch":
        with locate_refusals(source):
            notes += _note_unmoved(source.graph, report, mode)
    needs_params = bool(report.copied or report.renames)
    return follow_rewrite(source, report, report=report, notes=notes, needs_params=needs_params)


def _note_unmoved(graph: Graph, report: Duplication, mode: ModeOrBatch) -> list[str]:
    """Return notes on weights that the branches share anyway, and on a tie without weights.

    Raises:
        RefusedError: the tie leaves out all weights.
    """
    calls = [node for node in report.branches[-1].images if node.op]
    count = len(find_format(graph).index_functions(graph, calls))
    weights = format_count(count, "weight")
    if mode == "tie" and not report.tied and not count:
        if report.copied:
            hint = "leave out the --copy that matches all; a parameter that is an output is not tied"
            message = f"nothing would be tied: {format_count(len(report.copied), 'parameter')} copied, which are all"
            raise RefusedError(Fault(message, hint=hint))
        return ["there are no parameters, so nothing is tied"]
    if count and (mode == "copy" or report.copied):
        return [f"{weights} in functions not copied: all branches call the same functions, which have one of each"]
    return [f"{weights} in functions tied: all branches call the same functions"] if count else []


def _check_mode(
    mode: ModeOrBatch, choices: Sequence[object], upto: Sequence[str], batch_axes: Mapping[str, int], force: bool
) -> None:
    """Refuse options that do not go with the mode. Raises UsageError with all of them."""
    faults = []
    if mode != "batch":
        idle = [option for option, value in (("`batch_axes`", batch_axes), ("`force`", force)) if value]
        faults = [Fault(f"{option} is for `mode='batch'`", hint="leave it out, or choose that mode") for option in idle]
    elif choices:
        faults.append(Fault("`choices` choose between modes; a batch has one run and one set of parameters"))
    if mode == "batch" and upto:
        hint = "cut it out first: graphshare extract GRAPH --target NAME"
        faults.append(Fault("`upto` leaves the original as it is; a batch is one run of the whole graph", hint=hint))
    if faults:
        raise UsageError(faults)
