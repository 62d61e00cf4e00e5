"""``verify``: the proof that branches compute the same, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.branches import HeadPairs
from graphshare.analysis.implied import implied_variables
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.execute.engines.executor import Executor
from graphshare.execute.engines.onnx_session import EXTRA, has_runtime
from graphshare.execute.plan import UnsupportedError, unsupported_operators
from graphshare.execute.prepare import describe_upgrade, upgrade_part
from graphshare.formats.params.lookup import compare_parameters
from graphshare.ir.compare import Pairing, compare_structure
from graphshare.ir.graph import Entry, Graph, Rewrite
from graphshare.ops.batch_norm.signature import BARRIER_KEYS
from graphshare.ops.kernel import Array
from graphshare.rewrite.batched_graph import Batched, find_batch
from graphshare.rewrite.upgrade import upgrade
from graphshare.verification.batched import verify_batched
from graphshare.verification.inputs import BranchInputs, RoundValues, Settings, check_names
from graphshare.verification.pairs import pair_branches, pair_by_rewrite, pair_files
from graphshare.verification.recorded import compare_by_name, verify_recorded
from graphshare.verification.report import BranchReport, ParameterResult, Report
from graphshare.verification.sides import Side, Sides, Twins
from graphshare.verification.stages import (
    Stage,
    engine_stage,
    layer_stage,
    parameter_stage,
    structure_stage,
    training_stage,
    value_stage,
)
from graphshare.verification.training import Training, train_branches
from graphshare.verification.values import EngineComparison, Values, compare_engines, compare_values

NO_RUNTIME = f"onnxruntime, which computes ONNX models, is not installed: {EXTRA.format('it')}"


def verify(
    left: Side,
    right: Side | None,
    settings: Settings,
    *,
    recorded: Mapping[str, Array] | None = None,
    recorded_name: str = "",
    rewrite: Rewrite | None = None,
    prefixes: Sequence[str] = (),
    map_file: str | None = None,
) -> Report:
    """Compare the branches of ``left``, or its graph with that of ``right``: structure, parameters, values, training.

    With ``values_only`` only the outputs of ``left`` are compared with those of ``right``: :func:`compare_by_name`.
    With ``recorded`` (arrays by name, whose origin is ``recorded_name``) only values are compared: :func:`verify_recorded`.

    Branches are told apart by ``map_file``, by ``prefixes``, by the ``rewrite`` that made them, or by the names of the outputs;
    each branch of a batch is compared with a run of its own.

    Raises:
        RefusedError: branches cannot be told apart; shapes are missing or contradict each other, a parameter is missing, or a
            branch cannot run at the sizes of another.
        UnsupportedError: operators without a kernel, unless that is allowed; all are listed.
        UsageError: the branches are one batch, and ``train_step`` or ``layers`` is set.
    """
    if recorded is not None:
        check_names([left.graph], [left.graph], settings, {})
        return verify_recorded(left, recorded, settings, name=recorded_name)
    if right is not None and settings.values_only:
        check_names([left.graph, right.graph], [left.graph, right.graph], settings, {})
        if left.graph.source.format != "mxnet":
            from graphshare.verification.onnx_by_name import compare_models  # start-up: few proofs are of ONNX models

            return compare_models(left, right, settings)
        return compare_by_name(right, left, settings, name="the other graph")
    if right is not None:
        return _verify_pairs(pair_files(left.graph, right.graph), left, right, settings)
    batch = find_batch(left.graph) if not map_file else None
    if batch is None or set(prefixes) not in (set(), {label for label in batch.labels if label}):
        return _verify_pairs(_find_pairs(left.graph, rewrite, prefixes, map_file), left, left, settings)
    return _verify_batch(batch, left, settings)


def _verify_batch(batch: Batched, side: Side, settings: Settings) -> Report:
    """Compare the branches of a batch with runs of their own. Raises UsageError for what has no meaning in one run."""
    faults = []
    if settings.train_step:
        hint = "leave --train-step out; `graphshare run --sgd-steps` trains such a graph"
        faults.append(Fault("branches of a batch are one run on one set of parameters, which cannot drift", hint=hint))
    if settings.layers:
        message = "branches of a batch are one run, so --layers has no inner outputs of each to compare"
        faults.append(Fault(message, hint="leave --layers out"))
    if faults:
        raise UsageError(faults)
    notes: dict[str, None] = {}
    upgraded, _ = _upgrade(side, side.graph.heads, notes)
    check_names([upgraded.graph], [side.graph], settings, notes)
    return verify_batched(find_batch(upgraded.graph) or batch, upgraded, settings, notes)


def _find_pairs(graph: Graph, rewrite: Rewrite | None, prefixes: Sequence[str], map_file: str | None) -> list[HeadPairs]:
    """Return the branches of a rewrite, unless a map or prefixes name others; without a rewrite see :func:`pair_branches`."""
    if rewrite is not None and len(rewrite.branches) > 1 and not prefixes and not map_file:
        return pair_by_rewrite(rewrite)
    return pair_branches(graph, prefixes, map_file)


def _verify_pairs(heads: Sequence[HeadPairs], left: Side, right: Side, settings: Settings) -> Report:
    notes: dict[str, None] = {}
    graphs = [left.graph] if left is right else [left.graph, right.graph]
    heads, left, right = _upgrade_pairs(heads, left, right, notes)
    check_names([left.graph, right.graph], graphs, settings, notes)
    pairings = [compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS) for pair in heads]
    if left is not right and not settings.layers and not all(pairings):
        notes["the structures differ, so outputs are not compared; --values-only compares them by name"] = None
    twins = Twins((pair, pairing.pairs) for pair, pairing in zip(heads, pairings, strict=True))
    sides = Sides(left, right, twins.expand(settings.as_input))
    executors = settings.create_executors()
    reports = []
    for pair, pairing in zip(heads, pairings, strict=True):
        report = _verify_branch(pair, pairing, sides, twins, settings, executors, notes)
        if settings.layers and not pairing and left is not right:
            report = _add_layers_by_name(report, left, right, settings, notes)
        reports.append(report)
    notes.update({note: None for executor in executors.values() for note in executor.notes})
    return Report(tuple(reports), tuple(notes))


def _add_layers_by_name(
    report: BranchReport, left: Side, right: Side, settings: Settings, notes: dict[str, None]
) -> BranchReport:
    """Return the report of two files of different structure with the comparison of the outputs that have equal names."""
    try:
        by_name = compare_by_name(left, right, settings)
    except RefusedError as error:
        stage = Stage("layers", "skipped", "not run", tuple(str(fault) for fault in error.faults))
        return msgspec.structs.replace(report, stages=(*report.stages, stage))
    notes.update(dict.fromkeys(by_name.notes))
    stages = [stage for branch in by_name.branches for stage in branch.stages]
    rounds = tuple(values for branch in by_name.branches for values in branch.rounds)
    return msgspec.structs.replace(report, stages=(*report.stages, *stages), rounds=rounds)


def _upgrade_pairs(
    heads: Sequence[HeadPairs], left: Side, right: Side, notes: dict[str, None]
) -> tuple[list[HeadPairs], Side, Side]:
    """Return the pairs and the parts of both graphs that they need, upgraded where ``run`` upgrades them."""
    lefts, rights = [e for pair in heads for e in pair.left], [e for pair in heads for e in pair.right]
    if left is right:
        left, entries = _upgrade(left, [*lefts, *rights], notes)
        right, lefts, rights = left, entries[: len(lefts)], entries[len(lefts) :]
    else:
        left, lefts = _upgrade(left, lefts, notes)
        right, rights = _upgrade(right, rights, notes)
    upgraded = []
    for pair in heads:
        count = len(pair.left)
        upgraded.append(msgspec.structs.replace(pair, left=tuple(lefts[:count]), right=tuple(rights[:count])))
        lefts, rights = lefts[count:], rights[count:]
    return upgraded, left, right


def _upgrade(side: Side, wanted: Sequence[Entry], notes: dict[str, None]) -> tuple[Side, list[Entry]]:
    """Return the part of a graph that ``wanted`` needs, and these entries in it; implied variables are nodes."""
    part, _, implied = upgrade_part(side.graph, wanted)
    if any(implied_variables(part)):  # an operator without a kernel kept it as it is
        implied = sum(1 for _ in implied_variables(part))
        part = upgrade(part, keep_amp_cast=True).graph
    notes.update(dict.fromkeys(describe_upgrade(implied)))
    return Side(part, side.params), list(part.heads)


def _verify_branch(
    pair: HeadPairs,
    pairing: Pairing,
    sides: Sides,
    twins: Twins,
    settings: Settings,
    executors: Mapping[str, Executor],
    notes: dict[str, None],
) -> BranchReport:
    stages = [structure_stage(pairing)]
    if not pairing:
        return BranchReport(pair.reference, pair.label, tuple(stages))
    variables = [(a, b) for a, b in pairing.pairs if a.is_variable]
    owned = [(a, b) for a, b in variables if sides.is_parameter(a, b)]
    compared = compare_parameters(owned, sides.is_auxiliary, *sides.records)
    values = BranchInputs(pair, variables, compared, sides, twins, settings)
    stages.append(parameter_stage(values.parameters, sides.records[0] is None))
    parameters = tuple(ParameterResult(p.left.name, p.right.name, p.how, p.detail) for p in values.parameters)
    if sides.graphs[0].source.format != "mxnet":
        rounds = _run_sessions(pairing, values, twins, notes) if has_runtime() else ()
        stages.append(value_stage(rounds) if rounds else Stage("values", "skipped", "not run", (NO_RUNTIME,)))
        return BranchReport(pair.reference, pair.label, tuple(stages), rounds, parameters=parameters)
    faults = unsupported_operators([a for a, _ in pairing.pairs])
    if faults and not settings.allow_unsupported:
        raise UnsupportedError(faults)
    if faults:
        stages.append(Stage("values", "skipped", "not run", tuple(sorted({fault.message for fault in faults}))))
        return BranchReport(pair.reference, pair.label, tuple(stages), parameters=parameters)
    try:
        assigned = values.rounds(notes)
    except RefusedError as error:
        if stages[-1].verdict != "fails":
            raise
        stages.append(Stage("values", "skipped", "not run", tuple(str(fault) for fault in error.faults)))
        return BranchReport(pair.reference, pair.label, tuple(stages), parameters=parameters)
    done = _run_branches(pairing, values, assigned, executors, notes)
    stages += done.stages
    return BranchReport(pair.reference, pair.label, tuple(stages), done.rounds, done.training, parameters, done.engines)


def _run_sessions(pairing: Pairing, values: BranchInputs, twins: Twins, notes: dict[str, None]) -> tuple[Values, ...]:
    from graphshare.verification.onnx_values import compare_in_sessions  # start-up: few proofs are of ONNX models

    return compare_in_sessions(pairing, values, twins, notes)


class Compared(msgspec.Struct, frozen=True, eq=False):
    """The last stages of a branch, and what they rest on."""

    stages: list[Stage]
    rounds: tuple[Values, ...]
    training: Training | None
    engines: tuple[EngineComparison, ...]


def _run_branches(
    pairing: Pairing,
    values: BranchInputs,
    assigned: Sequence[RoundValues],
    executors: Mapping[str, Executor],
    notes: dict[str, None],
) -> Compared:
    """Compare the values of all rounds and, if asked for, a step of training; return the stages with what they rest on."""
    pair, settings, sides = values.pair, values.settings, values.sides
    by_engine: dict[str, list[Values]] = {name: [] for name in executors}
    across: list[EngineComparison] = []
    for each in assigned:
        computed = {}
        for name, executor in executors.items():
            compared, computed[name] = compare_values(pair, pairing, each, executor, sides.roles, settings, name)
            by_engine[name].append(compared)
        across += compare_engines(pair, each, computed, executors, sides.roles, settings)
    rounds = tuple(compared for of in by_engine.values() for compared in of)
    stages = [
        value_stage(rounds),
        *([layer_stage(rounds)] if settings.layers else []),
        *([engine_stage(across)] if across else []),
    ]
    training = None
    if settings.train_step and any(stage.verdict == "fails" for stage in stages):
        stages.append(Stage("training", "skipped", "the branches differ before they are trained"))
    elif settings.train_step:
        inputs = [(a, b) for a, b in pairing.pairs if a.is_variable and not sides.is_parameter(a, b)]
        first = assigned[: len(values.setups)]
        training = train_branches(pair, pairing, inputs, values.parameters, first, sides.roles, settings)
        stages.append(training_stage(training, expect_tied=settings.expect_tied))
        if any(executor.engine is not None for executor in executors.values()):
            notes["training is computed with numpy"] = None
    return Compared(stages, rounds, training, tuple(across))
