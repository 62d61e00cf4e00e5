"""``verify`` of branches whose nodes belong together, or of two graphs: structure, parameters, values, training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from graphshare.analysis.branches import Counterparts, HeadPairs, NodePair
from graphshare.analysis.name_lists import find_missing_outputs, list_implied_variables, output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, InputError, RefusedError, UsageError
from graphshare.execute.engines.executor import Executor
from graphshare.execute.engines.onnx_session import EXTRA, has_runtime
from graphshare.execute.engines.registry import ONNXRUNTIME
from graphshare.execute.engines.session_model import SessionPart
from graphshare.execute.plan import UnsupportedError, find_unsupported_operators
from graphshare.execute.prepare.declared_inputs import draw_values, unify_sizes
from graphshare.execute.prepare.memory import check_memory
from graphshare.execute.prepare.prepare import describe_upgrade, upgrade_part
from graphshare.formats.model_format import Capability, find_format, has_kernels
from graphshare.formats.params.lookup import ParameterPair, compare_parameters
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Entry, Graph
from graphshare.rewrite.upgrade import upgrade
from graphshare.text.format import format_bytes, format_count
from graphshare.text.names import did_you_mean
from graphshare.verification.by_name import compare_graphs, compare_models, make_judge
from graphshare.verification.compare import (
    EngineComparison,
    Values,
    compare_engines,
    compare_runs,
    tolerate_by_element,
    tolerate_other_program,
)
from graphshare.verification.input_sets import merge_reports
from graphshare.verification.inputs import BranchInputs, RoundValues, VerifyOptions, add_notes, describe_drawn
from graphshare.verification.pairing import (
    SidePair,
    find_exchanged,
    pair_nodes,
)
from graphshare.verification.report import (
    BranchReport,
    ParameterResult,
    Report,
    Stage,
    engine_stage,
    exact_stage,
    layer_stage,
    parameter_stage,
    structure_stage,
    training_stage,
    value_stage,
)
from graphshare.verification.runners import GraphRunner, Round, Runner, SessionRunner
from graphshare.verification.training import train_branches

_NO_RUNTIME = "onnxruntime, which computes ONNX models, is not installed"


def check_names(parts: Sequence[Graph], graphs: Sequence[Graph], options: VerifyOptions, notes: dict[str, None]) -> None:
    """Refuse options with a name that belongs to no variable; add a note on variables that nothing compared needs.

    ``parts`` are what is compared of ``graphs``. Raises RefusedError with all such names.
    """
    needed = {node.name for part in parts for node in part.variables()}
    known = {node.name for graph in graphs for node in graph.variables()}
    known |= {implied.name for graph in graphs for implied in list_implied_variables(graph)} | needed
    named = (("`feeds`", options.feeds), ("`shapes`", options.shapes), ("`as_input`", options.as_input))
    faults = [
        Fault(f"{option} {name!r} names no variable", hint=did_you_mean(name, known))
        for option, names in named
        for name in names
        if name not in known
    ]
    if faults:
        raise RefusedError(faults)
    for option, names in named:
        if idle := [name for name in names if name not in needed]:
            notes[f"{option}: nothing that is compared needs {', '.join(idle)}"] = None


def verify_pairs(heads: Sequence[HeadPairs], left: Checkpoint, right: Checkpoint, options: VerifyOptions) -> Report:
    """Compare pairs of branches of one model, or of two: structure, parameters, values, training.

    Raises:
        RefusedError: names that belong to no variable; shapes, values or parameters are missing.
        UnsupportedError: operators without a kernel, unless that is allowed; all are listed.
    """
    notes: dict[str, None] = {}
    graphs = [left.graph] if left is right else [left.graph, right.graph]
    heads, left, right = _upgrade_pairs(heads, left, right, notes)
    check_names([left.graph, right.graph], graphs, options, notes)
    pairings = [pair_nodes(pair, left, right) for pair in heads]
    # Files of unlike structure may still be exact by identities; if not, their outputs are not compared here.
    if left is not right and not options.layers and not all(pairings):
        exact = _compare_exact(left, right, options)
        if exact is not None:
            return exact
        notes["the structures differ, so outputs are not compared; `values_only` compares them by name"] = None
    twins = Counterparts((pair, pairing.pairs) for pair, pairing in zip(heads, pairings, strict=True))
    sides = SidePair(left, right, twins.expand(options.as_input))
    if left is not right:
        for pair, pairing in zip(heads, pairings, strict=True):
            inputs = [(a.name, b.name) for a, b in pairing.variables if not sides.is_parameter(a, b)]
            outputs = [(output_name(a), output_name(b)) for a, b in zip(pair.left, pair.right, strict=True)]
            # Structure pairs inputs by their use, so exchanged names go unseen; but callers feed by name.
            pairing.statements += [*find_exchanged(inputs, "input"), *find_exchanged(outputs, "output")]
    executors = options.create_executors()
    reports = []
    for pair, pairing in zip(heads, pairings, strict=True):
        report = _verify_branch(pair, pairing, sides, twins, options, executors, notes)
        if options.layers and not pairing and left is not right:
            report = _add_layers_by_name(report, left, right, options, notes)
        reports.append(report)
    notes.update({note: None for executor in executors.values() for note in executor.notes})
    return Report(tuple(reports), tuple(notes))


def _compare_exact(side: Checkpoint, other: Checkpoint, options: VerifyOptions) -> Report | None:
    """Compare two models of which every operator is exact by identities, whose outputs have one order; None for others."""
    names, others = ([output_name(entry) for entry in each.graph.heads] for each in (side, other))
    if options.train_step or names != others:
        return None
    missing = [
        msgspec.structs.replace(fault, where=each.where)
        for each in (side, other)
        for fault in find_missing_outputs(each.graph.nodes, each.graph.heads)
    ]
    if missing:
        raise RefusedError(missing)
    exact = make_judge(side, other).find_exact()
    if exact is None:
        return None
    if has_kernels(side.graph):
        rounds = (msgspec.structs.replace(options, rounds=1, seed=options.seed + number) for number in range(options.rounds))
        report = merge_reports([compare_graphs(other, side, each, name="the other graph") for each in rounds])
    else:
        report = compare_models(side, other, options)
    branch = report.branches[0]
    branch = msgspec.structs.replace(branch, stages=(exact_stage(exact), *branch.stages), regions=(exact,))
    return msgspec.structs.replace(report, branches=(branch, *report.branches[1:]))


def _add_layers_by_name(
    report: BranchReport, left: Checkpoint, right: Checkpoint, options: VerifyOptions, notes: dict[str, None]
) -> BranchReport:
    """Return the report of two files of different structure with the comparison of the outputs that have equal names."""
    try:
        by_name = compare_graphs(left, right, options)
    except RefusedError as error:
        stage = Stage("layers", "skipped", "not run", tuple(str(fault) for fault in error.faults))
        return msgspec.structs.replace(report, stages=(*report.stages, stage))
    notes.update(dict.fromkeys(by_name.notes))
    stages = [stage for branch in by_name.branches for stage in branch.stages]
    rounds = tuple(values for branch in by_name.branches for values in branch.rounds)
    return msgspec.structs.replace(report, stages=(*report.stages, *stages), rounds=rounds)


def _upgrade_pairs(
    heads: Sequence[HeadPairs], left: Checkpoint, right: Checkpoint, notes: dict[str, None]
) -> tuple[list[HeadPairs], Checkpoint, Checkpoint]:
    """Return the pairs and the parts of both graphs that they need, upgraded where ``run`` upgrades them."""
    lefts, rights = [e for pair in heads for e in pair.left], [e for pair in heads for e in pair.right]
    if left is right:
        left, images = upgrade_side(left, [*lefts, *rights], notes)
        right, right_images = left, images
    else:
        left, images = upgrade_side(left, lefts, notes)
        right, right_images = upgrade_side(right, rights, notes)
    upgraded = [
        msgspec.structs.replace(
            pair, left=tuple(images[entry] for entry in pair.left), right=tuple(right_images[entry] for entry in pair.right)
        )
        for pair in heads
    ]
    return upgraded, left, right


def upgrade_side(side: Checkpoint, wanted: Sequence[Entry], notes: dict[str, None]) -> tuple[Checkpoint, dict[Entry, Entry]]:
    """Return the part of a graph that ``wanted`` needs, and the images of these entries; implied variables are nodes."""
    part, _, implied = upgrade_part(side.graph, wanted)
    if any(list_implied_variables(part)):  # an operator without a kernel kept it as it is
        implied = sum(1 for _ in list_implied_variables(part))
        part = upgrade(part, keep_amp_cast=True).graph
    notes.update(dict.fromkeys(describe_upgrade(implied)))
    return msgspec.structs.replace(side, graph=part), dict(zip(wanted, part.heads, strict=True))


def _verify_branch(
    pair: HeadPairs,
    pairing: Pairing,
    sides: SidePair,
    twins: Counterparts,
    options: VerifyOptions,
    executors: Mapping[str, Executor],
    notes: dict[str, None],
) -> BranchReport:
    structure = structure_stage(pairing)
    if not pairing:
        return BranchReport(pair.reference, pair.label, (structure,))
    variables = pairing.variables
    owned = [(a, b) for a, b in variables if sides.is_parameter(a, b)]
    compared = compare_parameters(owned, sides.is_auxiliary, *sides.records)
    inputs = BranchInputs(pair, variables, compared, sides, twins, options)
    tied = _describe_tied(inputs.parameters, pairing, sides)
    stages = [structure, parameter_stage(inputs.parameters, sides.records[0] is None, tied)]
    parameters = tuple(ParameterResult(p.left.name, p.right.name, p.how, p.detail) for p in inputs.parameters)
    kernels = has_kernels(sides.graphs[0])
    assigned: list[RoundValues] = []
    differs = stages[-1].verdict == "fails"
    reasons = _find_obstacles(pairing, options, kernels=kernels, differs=differs)
    try:
        if reasons:
            planned: Iterable[Round] = ()
        elif kernels:
            assigned = inputs.rounds(notes)
            planned = _plan_rounds(inputs, assigned, executors)
        else:
            planned = _draw_rounds(inputs, variables, notes)
        rounds, engines = _compare_rounds(inputs, pairing, planned)
    # Parameters that differ are an answer already, so a run that fails besides must not hide it.
    except (RefusedError, InputError) as error:
        if not differs:
            raise
        reasons = [str(fault) for fault in error.faults]
    if reasons:
        stages.append(Stage("values", "skipped", "not run", tuple(reasons)))
        return BranchReport(pair.reference, pair.label, tuple(stages), parameters=parameters)
    stages.append(value_stage(rounds))
    stages += [layer_stage(rounds)] if options.layers else []
    stages += [engine_stage(engines)] if engines else []
    training = None
    if options.train_step and any(stage.verdict == "fails" for stage in stages):
        stages.append(Stage("training", "skipped", "the branches differ before they are trained"))
    elif options.train_step:
        drawn = [(a, b) for a, b in variables if not sides.is_parameter(a, b)]
        first = assigned[: len(inputs.setups)]
        training = train_branches(pair, pairing, drawn, inputs.parameters, first, sides.roles, options)
        stages.append(training_stage(training, expect_tied=options.expect_tied))
        if any(executor.engine is not None for executor in executors.values()):
            notes["training is computed with numpy"] = None
    tolerance = tolerate_by_element(options.atol, options.rtol)
    return BranchReport(pair.reference, pair.label, tuple(stages), rounds, training, parameters, engines, tolerance)


def _describe_tied(parameters: Sequence[ParameterPair], pairing: Pairing, sides: SidePair) -> tuple[str, ...]:
    """Return how many of the branches' parameters, and how much of a model that holds them, are tied; nothing for others."""
    (left, right), records = sides.members, sides.records[0]
    format_ = find_format(left.graph)
    if left is not right or records is None or format_.supports(Capability.PARAMETER_FILE):
        return ()
    inside = format_.index_functions(left.graph, [node for node, _ in pairing.pairs])
    tied = [*inside, *filter(None, (records.of(pair.left) for pair in parameters if pair.how == "tied"))]
    size, whole = sum(record.data_size for record in tied), records.file.whole_size
    sizes = f"{format_bytes(size)} of {format_bytes(max(size, whole))}"
    more = f" ({len(inside)} of them in functions)" if inside else ""
    return (f"tied: {len(tied)} of {format_count(len(parameters) + len(inside), 'parameter')}{more}, {sizes}",)


def _find_obstacles(pairing: Pairing, options: VerifyOptions, *, kernels: bool, differs: bool) -> list[str]:
    """Return why values cannot be compared, where that is allowed, or where parameters differ anyway.

    Raises:
        UnsupportedError: operators without a kernel, unless that is allowed.
        UsageError: onnxruntime is not installed, unless that is allowed.
    """
    if not kernels:
        if not (has_runtime() or differs or options.allow_unsupported):
            hint = f"{EXTRA.format('it')}; --allow-unsupported accepts structure and parameters alone"
            raise UsageError(Fault(_NO_RUNTIME, hint=hint))
        return [] if has_runtime() else [f"{_NO_RUNTIME}: {EXTRA.format('it')}"]
    faults = find_unsupported_operators([a for a, _ in pairing.pairs])
    if faults and not options.allow_unsupported:
        raise UnsupportedError(faults)
    return sorted({fault.message for fault in faults})


def _plan_rounds(inputs: BranchInputs, assigned: Sequence[RoundValues], executors: Mapping[str, Executor]) -> Iterator[Round]:
    """Yield both branches in each engine, for all rounds and sizes."""
    pair, roles = inputs.pair, inputs.sides.roles
    for values in assigned:
        if inputs.options.layers:
            check_memory(values.inference.nodes, pair.left, values.inference, values.left, keeps_all=True)
        runners: dict[str, tuple[Runner, Runner]] = {}
        for engine, executor in executors.items():
            left, right = (
                GraphRunner(heads, own, inference, roles, executor, engine=engine, seed=values.seed)
                for heads, own, inference in (
                    (pair.left, values.left, values.inference),
                    (pair.right, values.right, values.right_inference),
                )
            )
            runners[engine] = left, right
        yield Round(runners, values.sizes_of)


def _draw_rounds(inputs: BranchInputs, variables: Sequence[NodePair], notes: dict[str, None]) -> Iterator[Round]:
    """Yield both branches in sessions of their own for all rounds and sizes; add to ``notes`` what was drawn.

    Raises:
        RefusedError: inputs cannot be drawn.
        InputError: onnxruntime refuses a branch.
    """
    pair, sides, options = inputs.pair, inputs.sides, inputs.options
    left, right = (
        SessionPart(side.graph, heads, side.parameter_file, side.where)
        for side, heads in zip(sides.members, (pair.left, pair.right), strict=True)
    )
    twins = {a.name: b.name for a, b in variables}
    labels = {a.name: inputs.twins.describe(a) for a, _ in variables}
    titles = left.where or "the one model", right.where or "the other"
    for number in range(options.rounds):
        for setup in inputs.setups:
            feeds = {node.name: array for node, array in setup.feeds.items()}
            input_shapes = {node.name: shape for node, shape in setup.shapes.items()}
            shapes = unify_sizes(sides.graphs, twins, input_shapes, titles)
            # Every round draws new inputs, and the same seed draws the same rounds again.
            drawn = draw_values(left, feeds, shapes, options.seed + number)
            if not number:
                add_notes(notes, describe_drawn(drawn, feeds, options.seed, labels), setup.branch)
            options.coverage.look(left, drawn.values)
            others = {twins.get(name, name): value for name, value in drawn.values.items()}
            runners = SessionRunner(left, drawn.values, drawn.outputs), SessionRunner(right, others)
            yield Round({ONNXRUNTIME: runners}, setup.branch)


def _compare_rounds(
    inputs: BranchInputs, pairing: Pairing, rounds: Iterable[Round]
) -> tuple[tuple[Values, ...], tuple[EngineComparison, ...]]:
    """Return the comparison of both branches in each engine, and that of each engine with the first."""
    pair, options = inputs.pair, inputs.options
    names = [(output_name(a), output_name(b)) for a, b in zip(pair.left, pair.right, strict=True)]
    own = tolerate_by_element(options.atol, options.rtol)
    across = tolerate_other_program(options.atol, options.rtol)
    by_engine: dict[str, list[Values]] = {}
    engines: list[EngineComparison] = []
    for each in rounds:
        for engine, (left, right) in each.runners.items():
            values = compare_runs(names, left, right, own, nodes=pairing.pairs, layers=options.layers, sizes_of=each.sizes_of)
            by_engine.setdefault(engine, []).append(values)
        (first_left, first_right), *others = each.runners.values()
        for left, right in others:
            branches = [(first_left, left, pair.left), (first_right, right, pair.right)]
            engines.append(compare_engines(branches, across, sizes_of=each.sizes_of))
    return tuple(values for rounds in by_engine.values() for values in rounds), tuple(engines)
