"""``verify``: the proof that branches compute the same, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphshare.analysis.branches import HeadPairs
from graphshare.errors import Fault, UsageError
from graphshare.execute.feeds import GivenShape
from graphshare.execute.plan import UnsupportedError, unsupported_operators
from graphshare.formats.params.lookup import compare_parameters
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Graph, Rewrite
from graphshare.ops.batch_norm.signature import BARRIER_KEYS
from graphshare.ops.kernel import Array
from graphshare.rewrite.batched_graph import find_batch
from graphshare.verification.batched import verify_batched
from graphshare.verification.inputs import Settings, Side, Sides, assign_round, check_names
from graphshare.verification.pairs import pair_branches, pair_by_rewrite, pair_files
from graphshare.verification.report import BranchReport, Report
from graphshare.verification.stages import Stage, parameter_stage, structure_stage, training_stage, value_stage
from graphshare.verification.training import train_branches
from graphshare.verification.values import compare_values


def verify(
    left: Side,
    right: Side | None = None,
    *,
    rewrite: Rewrite | None = None,
    prefixes: Sequence[str] = (),
    map_file: str | None = None,
    seed: int = 0,
    rounds: int = 1,
    atol: float = 1e-8,
    rtol: float = 1e-5,
    feeds: Mapping[str, Array] | None = None,
    shapes: Mapping[str, GivenShape] | None = None,
    params_seed: int | None = None,
    allow_unsupported: bool = False,
    train_step: bool = False,
    expect_tied: bool = False,
) -> Report:
    """Compare the branches of ``left``, or its graph with that of ``right``: structure, parameters, values, training.

    Branches are told apart by ``map_file``, by ``prefixes``, by the ``rewrite`` that made them, or by the names of the outputs;
    each branch of a batch is compared with a run of its own. Values are compared for seeded inputs, ``rounds`` times, with
    tolerances as in numpy's isclose. ``feeds`` and ``shapes`` are by variable name and hold for the twins of other branches
    too. ``params_seed`` draws parameters that no file holds, equal ones for twins. ``allow_unsupported`` accepts the first two
    stages alone where an operator has no kernel. ``train_step`` adds the training stage, which with ``expect_tied`` fails where
    any pair will drift.

    Raises:
        RefusedError: branches cannot be told apart; shapes are missing or contradict each other, a parameter is missing.
        UnsupportedError: operators without a kernel, unless that is allowed; all are listed.
        UsageError: the branches are one batch, and ``train_step`` is set.
    """
    settings = Settings(
        seed, rounds, atol, rtol, feeds or {}, shapes or {}, params_seed, allow_unsupported, train_step, expect_tied
    )
    if right is not None:
        return _verify_pairs(pair_files(left.graph, right.graph), left, right, settings)
    batch = find_batch(left.graph) if not map_file else None
    if batch is None or set(prefixes) not in (set(), {label for label in batch.labels if label}):
        return _verify_pairs(_find_pairs(left.graph, rewrite, prefixes, map_file), left, left, settings)
    if train_step:
        hint = "leave --train-step out; `graphshare run --sgd-steps` trains such a graph"
        raise UsageError(Fault("branches of a batch are one run on one set of parameters, which cannot drift", hint=hint))
    return verify_batched(batch, left, settings)


def _find_pairs(graph: Graph, rewrite: Rewrite | None, prefixes: Sequence[str], map_file: str | None) -> list[HeadPairs]:
    """Return the branches of a rewrite, unless a map or prefixes name others; without a rewrite see :func:`pair_branches`."""
    if rewrite is not None and len(rewrite.branches) > 1 and not prefixes and not map_file:
        return pair_by_rewrite(rewrite)
    return pair_branches(graph, prefixes, map_file)


def _verify_pairs(heads: Sequence[HeadPairs], left: Side, right: Side, settings: Settings) -> Report:
    check_names([left.graph, right.graph], settings)
    sides = Sides(left, right)
    notes: dict[str, None] = {}
    reports = tuple(_verify_branch(pair, sides, settings, notes) for pair in heads)
    return Report(reports, tuple(notes))


def _verify_branch(pair: HeadPairs, sides: Sides, settings: Settings, notes: dict[str, None]) -> BranchReport:
    pairing = compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS)
    stages = [structure_stage(pairing)]
    if not pairing:
        return BranchReport(pair.reference, pair.label, tuple(stages))
    variables = [(a, b) for a, b in pairing.pairs if a.is_variable]
    inputs = [(a, b) for a, b in variables if not sides.roles[a].is_parameter]
    owned = [(a, b) for a, b in variables if sides.roles[a].is_parameter]
    parameters = compare_parameters(owned, sides.is_auxiliary, *sides.records)
    stages.append(parameter_stage(parameters, sides.records[0] is None))
    faults = unsupported_operators([a for a, _ in pairing.pairs])
    if faults:
        if not settings.allow_unsupported:
            raise UnsupportedError(faults)
        stages.append(Stage("values", "skipped", "not run", tuple(sorted({fault.message for fault in faults}))))
        return BranchReport(pair.reference, pair.label, tuple(stages))
    assigned = [assign_round(pair, inputs, parameters, sides, settings, n, notes) for n in range(settings.rounds)]
    rounds = tuple(compare_values(pair, pairing, values, atol=settings.atol, rtol=settings.rtol) for values in assigned)
    stages.append(value_stage(rounds))
    training = None
    if settings.train_step and stages[-1].verdict == "fails":
        stages.append(Stage("training", "skipped", "the branches differ before they are trained"))
    elif settings.train_step:
        training = train_branches(pair, pairing, inputs, parameters, assigned[0], sides.roles, settings)
        stages.append(training_stage(training, expect_tied=settings.expect_tied))
    return BranchReport(pair.reference, pair.label, tuple(stages), rounds, training)
