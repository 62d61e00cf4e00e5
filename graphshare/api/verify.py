"""``verify``: prove that branches, or the graphs of two models, compute the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphshare.analysis.implied import implied_variables
from graphshare.api.models import Model, Names, Shapes, as_checkpoint, as_names, as_path, as_shapes
from graphshare.checkpoint.load import StrPath, locate_refusals
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, UsageError
from graphshare.ir.graph import Rewrite
from graphshare.rewrite.upgrade import upgrade_checkpoint as plan_upgrade
from graphshare.verification.inputs import Side
from graphshare.verification.report import Report
from graphshare.verification.verify import verify as verify_sides


def verify(
    model: Model,
    *,
    prefixes: Names = (),
    map: StrPath | None = None,
    against: Model | None = None,
    feeds: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    params_seed: int | None = None,
    rounds: int = 1,
    seed: int = 0,
    atol: float = 1e-8,
    rtol: float = 1e-5,
    train_step: bool = False,
    expect_tied: bool = False,
    allow_unsupported: bool = False,
) -> Report:
    """Prove that the branches of ``model`` compute the same, or that its graph computes what that of ``against`` does.

    Structure, parameters and values are compared, with ``train_step`` also one step of SGD. The branches are those of the
    rewrites that made ``model``; for a model from a file they are named by ``prefixes`` or the ``map`` of the rewrite, else
    found from the names of its outputs. ``feeds`` and ``shapes`` are by variable name and hold for all branches; other inputs
    are drawn with ``seed``, ``rounds`` times, and with ``params_seed`` so are parameters that no file holds. ``expect_tied``
    makes a copied parameter a failure. ``allow_unsupported`` accepts structure and parameters alone where an operator has no
    kernel.

    The report is true if all holds; ``report.verdict`` is one line.

    Raises:
        UsageError: options that exclude each other.
        InputError: the map cannot be read or is of another graph.
        RefusedError: the branches cannot be told apart; shapes, values or parameters are missing.
        UnsupportedError: operators without a kernel, unless they are allowed; all are listed.
    """
    _check_options(bool(as_names(prefixes) or map), against is not None, train_step, expect_tied)
    source = as_checkpoint(model)
    left, rewrite = _side(source)
    if map and left.graph is not source.graph:
        raise UsageError(Fault("the file implies variables, so its ids are not the map's", hint="pair branches with --prefix"))
    with locate_refusals(source):
        return verify_sides(
            left,
            None if against is None else _side(as_checkpoint(against))[0],
            rewrite=rewrite,
            prefixes=as_names(prefixes),
            map_file=as_path(map),
            seed=seed,
            rounds=rounds,
            atol=atol,
            rtol=rtol,
            feeds=feeds,
            shapes=as_shapes(shapes),
            params_seed=params_seed,
            allow_unsupported=allow_unsupported,
            train_step=train_step,
            expect_tied=expect_tied,
        )


def _check_options(by_branch: bool, by_file: bool, train_step: bool, expect_tied: bool) -> None:
    """Refuse options that do not go together. Raises UsageError with all of them."""
    faults = []
    if expect_tied and not train_step:
        faults.append(Fault("--expect tied needs --train-step"))
    if by_file and by_branch:
        faults.append(Fault("--against compares two files; --prefix and --map are for branches in one"))
    if faults:
        raise UsageError(faults)


def _side(source: Checkpoint) -> tuple[Side, Rewrite | None]:
    """Return the model with a node for each variable that its file implies, and the rewrite that leads there."""
    source.held  # noqa: B018  (refuses records without names)
    if not any(implied_variables(source.graph)):
        return Side(source.graph, source.parameter_file), source.rewrite
    upgrade = plan_upgrade(source, keep_amp_cast=True)
    return Side(upgrade.graph, source.parameter_file), None if source.rewrite is None else source.rewrite.then(upgrade)


def failures(report: Report) -> list[Fault]:
    """Return the differences of a report as faults."""
    return [
        Fault(f"{stage.name} of {branch.branch}: {detail}")
        for branch in report.branches
        for stage in branch.stages
        if stage.verdict == "fails"
        for detail in stage.details or (stage.summary,)
    ] or [Fault(report.verdict)]
