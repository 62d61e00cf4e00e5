"""``verify`` by names, whatever the structure: against recorded outputs, another graph, or a model of another format.

The reference is run, or was recorded; what is compared gets its inputs, and outputs are paired by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from graphshare.analysis.branches import find_twins
from graphshare.analysis.name_lists import internals, list_implied_variables, output_name, resolve_targets
from graphshare.analysis.roles import Kind
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, RefusedError
from graphshare.execute.engines.executor import Executor
from graphshare.execute.engines.registry import create_executor
from graphshare.execute.engines.session_model import SessionPart
from graphshare.execute.prepare.declared_inputs import convert_inputs, draw_as, draw_values, find_dtype, unify_sizes
from graphshare.execute.prepare.feeds import GivenShape, parameter_values
from graphshare.execute.prepare.prepare import Prepared, prepare, unique_names, upgrade_part
from graphshare.execute.run import is_recordable
from graphshare.formats.model_format import find_format, has_kernels
from graphshare.formats.params.narrow_dtypes import narrow
from graphshare.formats.params.records import find_coarsest
from graphshare.ir.graph import Entry, Graph
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count, format_names
from graphshare.text.names import did_you_mean
from graphshare.verification.compare import (
    Tolerance,
    allow_spread,
    compare_runs,
    tolerate_by_element,
    tolerate_dtype,
    tolerate_other_program,
)
from graphshare.verification.inputs import VerifyOptions, add_notes, describe_drawn
from graphshare.verification.pairing import find_changes, order_heads, pair_heads, pair_names
from graphshare.verification.region_plan import Pair
from graphshare.verification.regions import Judge, RegionReport, tolerate_region
from graphshare.verification.report import (
    OTHER_MODEL,
    BranchReport,
    Report,
    Stage,
    add_regions,
    exact_stage,
    layer_stage,
    structure_stage,
    value_stage,
)
from graphshare.verification.runners import ABSENT, GraphRunner, RecordRunner, Runner, SessionRunner

T = TypeVar("T")
THIS = "this graph"
_NAMED = 6


def verify_by_name(side: Checkpoint, other: Checkpoint, options: VerifyOptions) -> Report:
    """Compare the outputs of two graphs of any format by their names.

    With ``across_dtypes`` the tolerance is that of the least precise dtype in which either has parameters.

    Raises:
        RefusedError: as :func:`compare_graphs`, :func:`compare_models` or :func:`compare_formats`.
        UsageError: onnxruntime is not installed, and computes one of them.
    """
    if options.across_dtypes:
        records = [
            record for each in (side, other) if each.parameter_file is not None for record in each.parameter_file.records
        ]
        options = msgspec.structs.replace(options, dtype=find_coarsest(record.dtype for record in records) or "float32")
    if has_kernels(side.graph) and has_kernels(other.graph):
        report = compare_graphs(other, side, options, name="the other graph")
    elif has_kernels(side.graph):
        report = compare_formats(other, side, options)
    else:
        compare = compare_formats if has_kernels(other.graph) else _compare_sessions
        report = compare(side, other, options)
    # Unlike dtypes end a comparison unless a dtype is chosen; a note names the option that chooses one.
    if not options.dtype:
        outputs = [output for branch in report.branches for values in branch.rounds for output in values.outputs]
        apart = any(output.comparison.reason.startswith(("types float", "types bfloat")) for output in outputs)
        more = ("the dtypes differ; `across_dtypes` compares by value, with the tolerance of the less precise one",)
        return msgspec.structs.replace(report, notes=(*report.notes, *more)) if apart else report
    of_largest = _choose_tolerance(options, tolerate_other_program).of_largest
    note = f"numbers may differ by {of_largest:.3g} of the largest in their output: the tolerance of {options.dtype}"
    return msgspec.structs.replace(report, notes=(note, *report.notes))


def _choose_tolerance(options: VerifyOptions, tolerate: Callable[[float, float], Tolerance]) -> Tolerance:
    """Return the tolerance of unlike dtypes where these are compared, else that which ``tolerate`` makes."""
    if options.dtype:
        return tolerate_dtype(options.dtype, options.atol, options.rtol)
    return tolerate(options.atol, options.rtol)


def _compare_sessions(side: Checkpoint, other: Checkpoint, options: VerifyOptions) -> Report:
    """Compare two models in onnxruntime, with ``layers`` by the names of all outputs, and report what else differs."""
    if options.layers and len(side.graph.heads) != len(other.graph.heads):
        return compare_graphs(other, side, options, name="the other graph")
    pairing, changes = find_changes(side, other, across_dtypes=bool(options.dtype))
    report = compare_models(side, other, options, judge=make_judge(side, other) if changes else None)
    (branch,) = report.branches
    regions = branch.regions
    if options.layers:
        report = compare_graphs(other, side, options, name="the other graph")
        (branch,) = report.branches
    structure = structure_stage(pairing)
    if regions and not any(each.regions for each in regions):
        structure = exact_stage(regions[0])
    elif changes:
        summary = f"{format_count(len(changes), 'difference')}, so values alone are compared"
        structure = Stage("structure", "skipped", summary, changes)
    stages = add_regions((structure, *branch.stages), regions)
    hints = ["`feeds` gives inputs that show the other changes"] if stages[-1].name == "changes" else []
    branch = msgspec.structs.replace(branch, stages=stages, regions=regions)
    return msgspec.structs.replace(report, branches=(branch,), notes=(*report.notes, *hints))


def make_judge(side: Checkpoint, other: Checkpoint, heads: Sequence[Pair] = ()) -> Judge:
    """Return what judges the regions of two upgraded models, whose outputs and inputs are paired by name or in order."""
    heads = heads or list(zip(side.graph.heads, pair_heads(side, other)[1], strict=True))
    inputs = [
        [node.name for node in each.graph.variables() if not node.details.holds_value and node.name not in (each.held or ())]
        for each in (side, other)
    ]
    shared = set(inputs[0]) & set(inputs[1])
    # Inputs whose names only one side has are paired in their order, as outputs are.
    rest = [[name for name in names if name not in shared] for names in inputs]
    pairs = {**{name: name for name in shared}, **dict(zip(*rest, strict=False))}
    return Judge(side, other, heads, pairs)


def verify_recorded(side: Checkpoint, recorded: Mapping[str, Array], options: VerifyOptions, *, name: str) -> Report:
    """Run the graph on the recorded inputs and compare its heads, with ``layers`` every inner output, with ``recorded``.

    An array with the name of an input is fed, unless ``feeds`` has another. One with the name of a parameter is fed where the
    parameter file does not hold it, and compared with the file's where it does. Every head must be recorded; inner outputs
    that are not are counted. Values may differ by ``rtol`` of themselves or of the largest in their output: another program
    sums in another order. ``name`` is what messages call the record.

    Raises:
        RefusedError: shapes do not fit, values are missing, names that belong to no variable; all of a kind are listed.
        UnsupportedError: operators without a kernel; all are listed.
    """
    held = list_parameter_names(side.parameter_file) or ()
    variables = _list_variables(side.graph)
    inputs = {key: array for key, array in recorded.items() if key in variables and key not in held}
    options = _spread(options, side.graph, inputs)
    fed = inputs.keys() - options.feeds.keys()
    executors = options.create_executors()
    ready = _prepare(side, options, feeds={**inputs, **options.feeds})
    parameters = [node for node in ready.roles if node.name in recorded and node not in ready.values]
    ready.values.update(
        parameter_values(parameters, side.parameter_file, lambda node: ready.roles[node].kind is Kind.AUXILIARY)
    )
    branches = [_compare_with_record(ready, recorded, fed, options, name, *each) for each in executors.items()]
    rest = [key for key in recorded if key not in {*ready.names, *variables}]
    notes = [*ready.notes, *(note for executor in executors.values() for note in executor.notes)]
    if rest and options.layers:
        notes.append(f"{name} has arrays with names that the graph does not have: {format_names(rest, _NAMED)}")
    elif rest:
        notes.append(f"{name} has {format_count(len(rest), 'array')} beside the outputs; `layers` compares inner outputs")
    return Report(tuple(branches), tuple(notes))


def _compare_with_record(
    ready: Prepared,
    recorded: Mapping[str, Array],
    fed: Collection[str],
    options: VerifyOptions,
    title: str,
    engine: str,
    executor: Executor,
) -> BranchReport:
    """Return the comparison of one engine's outputs with what was recorded; ``fed`` are recorded inputs."""
    runner = _make_runner(ready, executor, engine, options.seed)
    computed = list(zip(ready.names, ready.part.heads, runner.run(), strict=True))
    own_dtypes = {name: value.dtype for name, _, value in computed if is_recordable(value)}
    # A file of numpy has the numbers of what numpy has no arrays of in another dtype.
    recorded = {
        name: narrow(x, own_dtypes[name]) if name in own_dtypes and is_recordable(x) else x for name, x in recorded.items()
    }
    heads = [(name, value) for name, _, value in computed if name in ready.wanted]
    lost = [name for name, value in heads if ready.session and name not in recorded and not is_recordable(value)]
    if lost:
        hint = "`against=MODEL` compares them, and graphshare extract leaves them out"
        raise RefusedError(
            Fault(f"outputs cannot be recorded because they are not arrays of numbers: {format_names(lost)}", hint=hint)
        )
    nodes = post_order(entry.node for entry in ready.part.heads)
    compared = {(n, 0): (n.name, ready.values[n]) for n in nodes if n.is_variable and n.name in recorded.keys() - fed}
    inner = {(e.node, e.index): (name, value) for name, e, value in computed if not e.node.is_variable}
    compared |= {place: named for place, named in inner.items() if named[0] in recorded}
    names = {place: name for place, (name, _) in compared.items()}
    reference = RecordRunner(
        title, [recorded.get(name, ABSENT) for name, _ in heads], {p: recorded[n] for p, n in names.items()}, names
    )
    own = RecordRunner(THIS, [value for _, value in heads], {p: value for p, (_, value) in compared.items()}, names)
    own.engine, own.peak_bytes = runner.engine, runner.peak_bytes
    tolerance = _choose_tolerance(options, tolerate_other_program)
    pairs = [(node, node) for node in nodes]
    values = compare_runs([(name, name) for name, _ in heads], reference, own, tolerance, nodes=pairs, layers=options.layers)
    stages = [value_stage([values])]
    if options.layers:
        stages.append(layer_stage([values], missing=len(inner.keys() - names.keys())))
    this = THIS if len(options.engines) == 1 else f"{THIS} in {engine}"
    return BranchReport(title, this, tuple(stages), (values,), tolerance=tolerance)


def compare_graphs(left: Checkpoint, right: Checkpoint, options: VerifyOptions, *, name: str = "the original") -> Report:
    """Compare the outputs of ``right`` with those of ``left``, heads and inner ones, by their names; inputs are equal by name.

    The graphs may differ in structure. ``name`` is what messages call ``left``. Without ``layers`` only the heads of ``right``
    are compared, also with what is an inner output of ``left``; other heads of ``left`` are mentioned in a note.

    Raises:
        RefusedError: as :func:`verify_recorded`.
    """
    options = _share_sizes(left, right, options, {name: name for name in _list_variables(left.graph)})
    own, other = (_keep_names(_spread(options, side.graph), _list_variables(side.graph)) for side in (left, right))
    heads = [output_name(entry) for entry in right.graph.heads]
    known = {output for output, _ in internals(left.graph.nodes)}
    # A head that the left graph does not have is a difference, and not a name to refuse.
    ready = _prepare(left, own, targets=() if options.layers else [head for head in heads if head in known])
    outputs = _make_runner(ready, create_executor(options.engines[0]), options.engines[0], options.seed).run()
    held = list_parameter_names(left.parameter_file) or ()
    # The right graph has parameters of its own; only inputs are passed on.
    values = {node.name: array for node, array in ready.values.items() if node.name not in held}
    report = verify_recorded(right, {**values, **dict(zip(ready.names, outputs, strict=True))}, other, name=name)
    rest = [output for entry in left.graph.heads if (output := output_name(entry)) not in heads]
    more = [f"outputs of {name} that are not compared: {format_names(rest, _NAMED)}"] if rest and not options.layers else []
    report = msgspec.structs.replace(report, notes=tuple(dict.fromkeys((*ready.notes, *report.notes, *more))))
    is_judged = has_kernels(left.graph) and has_kernels(right.graph) and not options.layers and not report
    return _add_regions(report, ready, left, right, options) if is_judged else report


def _add_regions(report: Report, ready: Prepared, left: Checkpoint, right: Checkpoint, options: VerifyOptions) -> Report:
    """Return the report of two graphs whose outputs differ with their regions; ``ready`` is the left one, prepared."""
    part, _, _ = upgrade_part(right.graph, right.graph.heads)
    heads = dict(zip(ready.names, ready.part.heads, strict=True))
    pairs = [(heads[name], entry) for entry in part.heads if (name := output_name(entry)) in heads]
    models = [msgspec.structs.replace(side, graph=graph) for side, graph in ((left, ready.part), (right, part))]
    regions = _judge_graph(make_judge(models[0], models[1], pairs), ready, options)
    branch, *others = report.branches
    branch = msgspec.structs.replace(branch, stages=add_regions(branch.stages, regions), regions=tuple(regions))
    return msgspec.structs.replace(report, branches=(branch, *others))


def compare_models(
    side: Checkpoint,
    other: Checkpoint,
    options: VerifyOptions,
    *,
    judge: Judge | None = None,
) -> Report:
    """Run two models in onnxruntime on equal inputs, and compare their outputs.

    Inputs and outputs are paired by name, or in their order where the names differ; ``judge`` compares the regions in which
    the models differ.

    Raises:
        UsageError: onnxruntime is not installed.
        RefusedError: the models have different numbers of inputs or outputs, or other fixed sizes of an input; inputs cannot be
            drawn, or are not computed.
    """
    outputs, heads = pair_heads(side, other)
    inputs = pair_names(_list_inputs(side.graph.heads), _list_inputs(heads), "input")
    left = SessionPart(side.graph, side.graph.heads, side.parameter_file, side.where)
    options = msgspec.structs.replace(
        options, feeds=_by_left_name(options.feeds, inputs), shapes=_by_left_name(options.shapes, inputs)
    )
    options = _share_sizes(side, other, _spread(options, side.graph), inputs)
    tolerance = _choose_tolerance(options, tolerate_by_element)
    notes: dict[str, None] = {}
    rounds = []
    regions: list[RegionReport] = []
    right: SessionPart | None = None
    for number in range(options.rounds):
        drawn = draw_values(left, options.feeds, options.shapes, options.seed + number)
        if not number:
            add_notes(notes, describe_drawn(drawn, options.feeds, options.seed))
        taken = options.coverage.look(left, drawn.values)
        reference = SessionRunner(left, drawn.values, drawn.outputs)
        reference.run()
        if judge is not None:  # one of them is in memory at a time
            left.session.close()
        right = right or SessionPart(other.graph, heads, other.parameter_file, other.where)
        own = {inputs.get(name, name): value for name, value in drawn.values.items()}
        runner = SessionRunner(right, convert_inputs(right.session, own))
        values = compare_runs(list(outputs.items()), reference, runner, tolerance)
        if judge is not None:
            right.session.close()
            regions += [msgspec.structs.replace(each, taken=taken) for each in _judge(judge, drawn.values, options)]
        if not values and not options.dtype and all(regions):  # no spread excuses a region
            values, spread = allow_spread(values, left, drawn.values, (reference.run(), runner.run()), tolerance)
            add_notes(notes, spread)
        rounds.append(values)
    stages, compared = (value_stage(rounds),), tuple(rounds)
    branch = BranchReport("", OTHER_MODEL, stages, compared, tolerance=tolerance, regions=tuple(regions))
    return Report((branch,), tuple(notes))


def compare_formats(model: Checkpoint, graph: Checkpoint, options: VerifyOptions) -> Report:
    """Run ``model`` in onnxruntime and ``graph``, which has another format, in the executor, and compare the outputs.

    Inputs are equal by name. Their shapes are those of the model where it states them. Outputs are paired by name or, where the
    names differ, in their order. With ``layers``, and where an output differs, regions are judged.

    Raises:
        UsageError: onnxruntime is not installed.
        RefusedError: the model's inputs or outputs are not the graph's; shapes or values are missing.
    """
    targets, heads = _pair_outputs(model, graph)
    part = SessionPart(model.graph, heads, model.parameter_file, model.where)
    known = _list_variables(graph.graph)
    faults = [
        Fault(f"the model's input {name!r} is not a variable of the graph", where=model.where, hint=did_you_mean(name, known))
        for name in part.session.inputs
        if name not in known
    ]
    if faults:
        raise RefusedError(faults)
    # Inner outputs of two formats are not compared name by name: regions take the place of `layers`.
    options, by_region = _spread(msgspec.structs.replace(options, layers=False), graph.graph), options.layers
    declared = {
        name: tuple(size if isinstance(size, int) else None for size in shape)
        for name, shape in part.session.inputs.items()
        if name not in options.feeds
    }
    (engine, executor), *_ = options.create_executors().items()
    tolerance = _choose_tolerance(options, tolerate_other_program)
    names = [output_name(entry) for entry in heads]
    rounds = []
    regions: list[RegionReport] = []
    judge: Judge | None = None
    notes: dict[str, None] = {}
    for number in range(options.rounds):
        seed = options.seed + number
        ready = _prepare(graph, options, shapes={**declared, **options.shapes}, targets=targets, seed=seed)
        notes.update(dict.fromkeys((*ready.notes, *executor.notes)))
        reference = _make_runner(ready, executor, engine, seed)
        inputs = [node for node in ready.values if node.name in part.session.dtypes]
        for node in (node for node in inputs if node.name not in options.feeds):
            ready.values[node] = draw_as(ready.values[node], find_dtype(part.session, node.name))
        own = {node.name: ready.values[node] for node in inputs}
        runner = SessionRunner(part, convert_inputs(part.session, own))
        rounds.append(compare_runs(list(zip(ready.names, names, strict=True)), reference, runner, tolerance))
        if by_region or not rounds[-1]:
            pairs = list(zip(ready.part.heads, heads, strict=True))
            judge = judge or make_judge(msgspec.structs.replace(graph, graph=ready.part), model, pairs)
            regions += _judge_graph(judge, ready, options)
    stage = Stage("structure", "skipped", f"{find_format(model.graph).title} has other nodes")
    stages = add_regions((stage, value_stage(rounds)), regions)
    branch = BranchReport(
        "the graph", model.where or OTHER_MODEL, stages, tuple(rounds), tolerance=tolerance, regions=tuple(regions)
    )
    return Report((branch,), tuple(notes))


def _judge_graph(judge: Judge, ready: Prepared, options: VerifyOptions) -> list[RegionReport]:
    """Return the report of the regions of a graph that is prepared, as :func:`_judge` does."""
    return _judge(judge, {n.name: x for n, x in ready.values.items() if not ready.roles[n].is_parameter}, options)


def _judge(judge: Judge, feeds: Mapping[str, Array], options: VerifyOptions) -> list[RegionReport]:
    """Return the report of the regions of two models on ``feeds``, as a list without it where there is none."""
    judged = judge.judge(feeds, tolerate_region(options.dtype, options.atol, options.rtol))
    if judged is None:
        return []
    if not options.departures:
        options.departures.extend(judge.departures)
    return [judged]


def _list_inputs(heads: Sequence[Entry]) -> list[str]:
    """Return the names of the inputs that ``heads`` need."""
    return [node.name for node in post_order(head.node for head in heads) if not node.op and not node.details.holds_value]


def _by_left_name(values: Mapping[str, T], inputs: Mapping[str, str]) -> dict[str, T]:
    """Return ``values`` by the names of the left model, which ``inputs`` maps to those of the right one."""
    others = {b: a for a, b in inputs.items() if b not in inputs}
    own = {name: value for name, value in values.items() if name not in others}
    return {**{others[name]: value for name, value in values.items() if name in others}, **own}


def _pair_outputs(model: Checkpoint, graph: Checkpoint) -> tuple[Sequence[str], Sequence[Entry]]:
    """Return the outputs of ``graph`` that ``model`` has, none where those are its heads, and the model's in that order.

    Raises:
        RefusedError: the model has outputs that the graph does not have, and not as many as the graph.
    """
    names = unique_names([output_name(entry) for entry in model.graph.heads])
    own = unique_names([output_name(entry) for entry in graph.graph.heads])
    if set(names) == set(own):
        return (), order_heads(model.graph, own)
    if all(_names_output(graph.graph, name) for name in names):
        return names, model.graph.heads
    if len(names) == len(own):
        return (), model.graph.heads
    message = f"the model has {format_count(len(names), 'output')} ({format_names(names, 4)})"
    raise RefusedError(Fault(f"{message} and the graph {len(own)} ({format_names(own, 4)})"))


def _names_output(graph: Graph, name: str) -> bool:
    try:
        return len(resolve_targets([name], graph.nodes, option="`upto`")) == 1
    except RefusedError:
        return False


def _spread(options: VerifyOptions, graph: Graph, own: Collection[str] = ()) -> VerifyOptions:
    """Return options whose feeds and shapes hold for all branches of a graph; variables in ``own`` have a value."""
    return options.spread(find_twins(graph), own) if options.feeds or options.shapes else options


def _share_sizes(left: Checkpoint, right: Checkpoint, options: VerifyOptions, names: Mapping[str, str]) -> VerifyOptions:
    """Return options with the sizes that ``right`` fixes of inputs, by their names in ``left``."""
    titles = (left.where or "the one model", right.where or OTHER_MODEL)
    return msgspec.structs.replace(options, shapes=unify_sizes((left.graph, right.graph), names, options.shapes, titles))


def _keep_names(options: VerifyOptions, names: Collection[str]) -> VerifyOptions:
    """Return options with the feeds and shapes of these variables alone."""
    feeds, shapes = ({name: value for name, value in each.items() if name in names} for each in (options.feeds, options.shapes))
    return msgspec.structs.replace(options, feeds=feeds, shapes=shapes)


def _list_variables(graph: Graph) -> set[str]:
    return {node.name for node in graph.variables()} | {implied.name for implied in list_implied_variables(graph)}


def _prepare(
    side: Checkpoint,
    options: VerifyOptions,
    *,
    feeds: Mapping[str, Array] | None = None,
    shapes: Mapping[str, GivenShape] | None = None,
    targets: Sequence[str] = (),
    seed: int | None = None,
) -> Prepared:
    """Return the graph of ``targets`` or the heads, with ``layers`` of every output. What is given replaces the options'."""
    try:
        return prepare(
            side.graph,
            params=side.parameter_file,
            feeds=options.feeds if feeds is None else feeds,
            shapes=options.shapes if shapes is None else shapes,
            targets=targets,
            seed=options.seed if seed is None else seed,
            params_seed=options.params_seed,
            all_outputs=options.layers,
            as_input=options.as_input,
            where=side.where,
        )
    except RefusedError as error:
        raise error.with_location(side.where) from error.__cause__


def _make_runner(ready: Prepared, executor: Executor, engine: str, seed: int) -> Runner:
    if ready.session is not None:
        return SessionRunner(ready.session, {node.name: array for node, array in ready.values.items()})
    return GraphRunner(ready.part.heads, ready.values, ready.inference, ready.roles, executor, engine=engine, seed=seed)
