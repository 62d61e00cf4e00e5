"""``verify``: prove that the branches of a model compute the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphshare.checkpoint.load import (
    Model,
    Names,
    Shapes,
    StrPath,
    as_checkpoint,
    as_names,
    as_path,
)
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.formats.model_format import Operation, find_format
from graphshare.resources import Resources
from graphshare.rewrite.batched_graph import Batched, find_batch
from graphshare.verification.batched import verify_batched
from graphshare.verification.branches import check_names, verify_pairs
from graphshare.verification.comparison import Tolerance
from graphshare.verification.flow import (
    ProofOptions,
    check_options,
    limit_proof,
    make_options,
)
from graphshare.verification.inputs import Inputs
from graphshare.verification.pairing import pair_branches, pair_by_rewrite, upgrade_model
from graphshare.verification.report import Report


def verify(
    model: Model,
    *,
    prefixes: Names = (),
    map: StrPath | None = None,
    feeds: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    inputs: Inputs | None = None,
    tolerance: Tolerance | None = None,
    train_step: bool = False,
    expect_tied: bool = False,
    layers: bool = False,
    allow_unsupported: bool = False,
    engine: Names = (),
    strict_engine: bool = False,
    resources: Resources | None = None,
) -> Report:
    """Prove that the branches of ``model`` compute the same: structure, parameters, values, and optionally training.

    The branches come from the rewrites that made ``model``; for a model from a file ``prefixes`` or the ``map`` of the
    rewrite name them, else they are found from the names of its outputs. ``feeds`` and ``shapes`` are by variable name,
    as for :func:`run`; they apply to the branch of the variable, and to branches without their own. If two branches
    have different ones, both run at the sizes of either. ``inputs`` says how to choose other inputs. Open sizes are
    drawn with one sample and with two. ``tolerance`` works as in numpy's isclose, by default 1e-8 and 1e-5.

    ``train_step`` trains both for one step of SGD, and ``expect_tied`` makes a copied parameter a failure. ``layers``
    also compares every inner output, without effect on the verdict. ``allow_unsupported`` accepts structure and
    parameters alone if an operator cannot be computed. ``engine`` computes both branches separately, as in :func:`run`;
    several engines compute everything and are compared with the first. ``resources`` limit memory and time.

    The report is true if everything holds; ``report.verdict`` is one line. :func:`compare` compares two models.

    Raises:
        UsageError: options exclude each other, or engines are not installed.
        InputError: the map cannot be read or belongs to another graph.
        RefusedError: the branches cannot be told apart; shapes, values or parameters are missing.
        UnsupportedError: operators have no kernel, unless that is allowed; all are listed.
    """
    source = as_checkpoint(model)
    options = make_options(
        inputs,
        tolerance,
        engine,
        layers=layers,
        train_step=train_step,
        expect_tied=expect_tied,
        allow_unsupported=allow_unsupported,
        strict_engine=strict_engine,
    ).with_values(feeds, shapes, source.graph)
    UsageError.raise_any(check_options(options))
    faults = find_format(source.graph).find_lacks(
        Operation.TRAINING, ["`train_step`"] if train_step else [], where=source.where
    )
    if faults:
        raise RefusedError(faults)
    with limit_proof(resources, source):
        return _verify_branches(source, options, as_names(prefixes), as_path(map))


def _verify_branches(
    model: Checkpoint, options: ProofOptions, prefixes: Sequence[str], map_file: str | None
) -> Report:
    batch = find_batch(model.graph) if not map_file else None
    # The batch's own prefixes do not select branches by output names.
    if batch is not None and set(prefixes) in (set(), {label for label in batch.labels if label}):
        return _verify_batch(batch, model, options)
    rewrite = model.rewrite
    if rewrite is not None and len(rewrite.branches) > 1 and not prefixes and not map_file:
        return verify_pairs(pair_by_rewrite(rewrite), model, options)
    return verify_pairs(pair_branches(model.graph, prefixes, map_file), model, options)


def _verify_batch(batch: Batched, model: Checkpoint, options: ProofOptions) -> Report:
    """Compare a batch with separate runs. Raises UsageError for options that do not apply to it."""
    faults = []
    if options.train_step:
        hint = "leave `train_step` out; `gs.train` trains such a graph"
        faults.append(
            Fault(
                "branches of a batch are one run on one set of parameters, which cannot drift",
                hint=hint,
            )
        )
    if options.layers:
        message = (
            "branches of a batch are one run, so `layers` has no inner outputs of each to compare"
        )
        faults.append(Fault(message, hint="leave `layers` out"))
    if faults:
        raise UsageError(faults)
    notes: dict[str, None] = {}
    upgraded, _ = upgrade_model(model, model.graph.heads, notes, options.names)
    check_names([upgraded.graph], [model.graph], options, notes)
    return verify_batched(find_batch(upgraded.graph) or batch, upgraded, options, notes)
