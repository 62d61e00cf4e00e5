"""``duplicate``: branches of a graph beside it, with their own parameters or shared ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphshare.arguments import Natural
from graphshare.checkpoint.load import Model, Names, as_checkpoint, as_names, find_roles
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import Fault, RefusedError, locate_refusals
from graphshare.formats.model_format import Operation, find_format, require
from graphshare.ir.graph import EMPTY, Graph
from graphshare.rewrite.add_branches import plan_duplicate
from graphshare.rewrite.choices import BranchOptions, Duplication, Mode, ModeOrBatch
from graphshare.rewrite.tie import note_copied_attributes
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
    batch_axes: Mapping[str, Natural] = EMPTY,
    force: bool = False,
    as_input: Names = (),
    as_parameter: Names = (),
) -> Checkpoint:
    """Add a branch for each of ``prefixes``, with parameters of its own or on one set of
    parameters.

    The ``mode`` ``copy`` gives every branch its own parameters with equal initial values; ``tie``
    makes all branches use one set; ``batch`` runs the graph once on the inputs of all branches,
    concatenated along ``batch_axes`` (axis 0 unless named). ``choices`` (pairs such as ``("tie",
    "conv*")``) change the mode of some parameters; the last match wins. ``share_inputs`` are
    patterns of inputs and labels that all branches use. ``upto`` names outputs: the copies contain
    only the nodes that these need. ``drop_original`` removes the original branch. ``force`` allows
    a batch over operators that mix its samples. ``as_input`` and ``as_parameter`` name variables
    whose role cannot be inferred.

    Raises:
        UsageError: the mode does not support an option.
        RefusedError: names collide, a pattern matches nothing or the wrong kind, a target is
            unknown, a variable's role cannot be told, or operators mix the samples of a batch; all
            of a kind are listed.
    """
    source, names = as_checkpoint(model), as_names(prefixes)
    options = BranchOptions(
        mode, choices, as_names(share_inputs), as_names(upto), drop_original, batch_axes, force
    )
    options.check()
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        if not names:
            raise RefusedError(
                Fault(
                    "no branch is asked for",
                    hint="give a prefix for each copy, as in `prefixes='sha-'`",
                )
            )
        roles = find_roles(source, as_input, as_parameter, {"`batch_axes`": batch_axes})
        # Imported where it is asked for: starting is most of the time that a usual graph takes
        if mode == "batch":
            from graphshare.rewrite.batch import plan_batch

            require(source.graph, Operation.BATCH, what="`mode='batch'`")
            report = plan_batch(source.graph, names, roles, options)
        else:
            report = plan_duplicate(source.graph, names, roles, options, source.held)
    notes = [*report.notes, *notes_on(source.parameter_file, source.graph, report.roles)]
    if mode != "batch":
        with locate_refusals(source):
            notes += _note_unmoved(source.graph, report, mode)
        notes += note_copied_attributes(report.graph) if mode == "tie" else []
    needs_params = bool(report.copied or report.renames)
    return follow_rewrite(source, report, report=report, notes=notes, needs_params=needs_params)


def _note_unmoved(graph: Graph, report: Duplication, mode: ModeOrBatch) -> list[str]:
    calls = [node for node in report.branches[-1].images if node.op]
    count = len(find_format(graph).bodies.index_functions(graph, calls))
    weights = format_count(count, "weight")
    if mode == "tie" and not report.tied and not count:
        if report.copied:
            hint = (
                "leave out the `choices=('copy', PATTERN)` that matches all; a parameter that is "
                "an output is not tied"
            )
            message = f"nothing would be tied: all of {format_count(len(report.copied), 'parameter')} would be copied"
            raise RefusedError(Fault(message, hint=hint))
        return ["there are no parameters, so nothing is tied"]
    if count and (mode == "copy" or report.copied):
        return [
            f"{weights} in functions not copied: every branch calls the same functions, which have one of each"
        ]
    return [f"{weights} in functions tied: every branch calls the same functions"] if count else []
