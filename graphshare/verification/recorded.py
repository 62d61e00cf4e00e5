"""``verify`` against recorded outputs: those of another run, of this package or of MXNet, by their names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from graphshare.analysis.implied import implied_variables
from graphshare.analysis.name_lists import internals, output_name
from graphshare.checkpoint.parameter_plan import list_parameter_names
from graphshare.execute.engines.executor import Executor
from graphshare.execute.engines.registry import create_executor
from graphshare.execute.prepare import Prepared, prepare
from graphshare.execute.variable_values import random_stream
from graphshare.formats.mxnet.document import operator_text
from graphshare.formats.params.comparison import Comparison
from graphshare.ir.graph import Entry, Graph
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count, format_names
from graphshare.verification.inputs import Settings
from graphshare.verification.report import BranchReport, Report
from graphshare.verification.sides import Side
from graphshare.verification.stages import layer_stage, value_stage
from graphshare.verification.values import InnerComparison, OutputComparison, Values, compare_programs

THIS = "this graph"
_NAMED = 6
_APART = float("inf")


def verify_recorded(side: Side, recorded: Mapping[str, Array], settings: Settings, *, name: str) -> Report:
    """Run the graph on the recorded inputs and compare its heads, with ``layers`` every inner output, with ``recorded``.

    An array with the name of an input is fed, unless ``feeds`` has another. One with the name of a parameter is fed where the
    parameter file does not hold it, and compared with the file's where it does. Every head must be recorded; inner outputs
    that are not are counted. Values may differ by ``rtol`` of themselves or of the largest in their output: another program
    sums in another order. ``name`` is what messages call the record.

    Raises:
        RefusedError: shapes do not fit, values are missing, names that belong to no variable; all of a kind are listed.
        UnsupportedError: operators without a kernel; all are listed.
    """
    held = list_parameter_names(side.params) or ()
    variables = _list_variables(side.graph)
    inputs = {key: array for key, array in recorded.items() if key in variables and key not in held}
    fed = inputs.keys() - settings.feeds.keys()
    executors = settings.create_executors()
    ready = _prepare(side, {**inputs, **settings.feeds}, settings)
    branches = [_compare_run(ready, recorded, fed, settings, name, *of) for of in executors.items()]
    rest = [key for key in recorded if key not in {*ready.names, *variables}]
    left = (note for executor in executors.values() for note in executor.notes)
    return Report(tuple(branches), (*ready.notes, *left, *_describe_rest(rest, settings, name)))


def _compare_run(
    ready: Prepared,
    recorded: Mapping[str, Array],
    fed: Collection[str],
    settings: Settings,
    name: str,
    engine: str,
    executor: Executor,
) -> BranchReport:
    """Return the comparison of one engine's outputs with what was recorded; ``fed`` are recorded inputs."""
    outputs, peak = _run(ready, settings, executor)
    comparer = _Comparer(recorded, settings, name)
    layers = list(comparer.compare_variables(ready, fed))
    heads = []
    for output, entry, array in zip(ready.names, ready.part.heads, outputs, strict=True):
        if output in ready.wanted:
            heads.append(comparer.compare_head(output, array))
        if output not in fed:
            layers += comparer.compare_output(output, entry, array)
    first = next((layer for layer in layers if not layer.comparison), None)
    values = Values(tuple(heads), first, peak, None, tuple(layers) if settings.layers else (), engine)
    stages = [value_stage([values])]
    if settings.layers:
        stages.append(layer_stage([values], missing=comparer.missing))
    this = THIS if len(settings.engines) == 1 else f"{THIS} in {engine}"
    return BranchReport(name, this, tuple(stages), (values,))


def compare_by_name(left: Side, right: Side, settings: Settings, *, name: str = "the original") -> Report:
    """Compare the outputs of ``right`` with those of ``left``, heads and inner ones, by their names; inputs are equal by name.

    The graphs may differ in structure. ``name`` is what messages call ``left``. Without ``layers`` only the heads of ``right``
    are compared, also with what is an inner output of ``left``; other heads of ``left`` are mentioned in a note.

    Raises:
        RefusedError: as :func:`verify_recorded`.
    """
    own, other = (
        msgspec.structs.replace(
            settings,
            feeds={name: array for name, array in settings.feeds.items() if name in names},
            shapes={name: shape for name, shape in settings.shapes.items() if name in names},
        )
        for names in (_list_variables(side.graph) for side in (left, right))
    )
    heads = [output_name(entry) for entry in right.graph.heads]
    known = {output for output, _ in internals(left.graph.nodes)}
    ready = _prepare(left, own.feeds, own, () if settings.layers else [head for head in heads if head in known])
    outputs, _ = _run(ready, own, create_executor(settings.engines[0]))
    held = list_parameter_names(left.params) or ()
    values = {node.name: array for node, array in ready.values.items() if node.name not in held}
    report = verify_recorded(right, {**values, **dict(zip(ready.names, outputs, strict=True))}, other, name=name)
    rest = [output for entry in left.graph.heads if (output := output_name(entry)) not in heads]
    more = [f"outputs of {name} that are not compared: {format_names(rest, _NAMED)}"] if rest and not settings.layers else []
    return msgspec.structs.replace(report, notes=tuple(dict.fromkeys((*ready.notes, *report.notes, *more))))


def _prepare(side: Side, feeds: Mapping[str, Array], settings: Settings, targets: Sequence[str] = ()) -> Prepared:
    """Return the graph of ``targets`` or the heads, with ``layers`` of every output."""
    return prepare(
        side.graph,
        params=side.params,
        feeds=feeds,
        shapes=settings.shapes,
        targets=targets,
        seed=settings.seed,
        params_seed=settings.params_seed,
        all_outputs=settings.layers,
        as_input=settings.as_input,
    )


def _run(ready: Prepared, settings: Settings, executor: Executor) -> tuple[list[Array], int]:
    """Return the outputs and the peak memory in bytes."""
    rng = random_stream(settings.seed)
    done = executor.run(ready.part.heads, ready.values, ready.inference, ready.roles, rng=rng)
    return done.outputs, done.peak_bytes


def _list_variables(graph: Graph) -> set[str]:
    return {node.name for node in graph.variables()} | {implied.name for implied in implied_variables(graph)}


def _describe_rest(names: Sequence[str], settings: Settings, name: str) -> Iterator[str]:
    """Yield a note on recorded arrays that were not compared."""
    if names and settings.layers:
        yield f"{name} has arrays with names that the graph does not have: {format_names(names, _NAMED)}"
    elif names:
        yield f"{name} has {format_count(len(names), 'array')} beside the outputs; --layers compares inner outputs"


class _Comparer:
    """Compares what was computed with what was recorded; ``missing`` counts what was not recorded."""

    def __init__(self, recorded: Mapping[str, Array], settings: Settings, name: str) -> None:
        self._recorded, self._settings, self._name = recorded, settings, name
        self.missing = 0

    def compare_head(self, name: str, array: Array) -> OutputComparison:
        """Return the comparison of a head, which fails where it was not recorded."""
        comparison = self._compare(name, array)
        if comparison is None:
            comparison = Comparison(False, False, _APART, _APART, f"{self._name} does not have it")
        return OutputComparison(name, name, array.shape, str(array.dtype), comparison)

    def compare_variables(self, ready: Prepared, fed: Collection[str]) -> Iterator[InnerComparison]:
        """Yield the comparison of each recorded variable whose value is not the recorded one."""
        for node in post_order(entry.node for entry in ready.part.heads):
            if node.is_variable and node.name not in fed:
                comparison = self._compare(node.name, ready.values[node])
                if comparison is not None:
                    yield InnerComparison(node.name, node.name, operator_text(node), 0, comparison)

    def compare_output(self, name: str, entry: Entry, array: Array) -> Iterator[InnerComparison]:
        """Yield the comparison of an operator's output; count it where it was not recorded."""
        if entry.node.is_variable:
            return
        comparison = self._compare(name, array)
        if comparison is None:
            self.missing += 1
        else:
            yield InnerComparison(name, entry.node.name, entry.node.op, entry.index, comparison)

    def _compare(self, name: str, array: Array) -> Comparison | None:
        """Return the comparison with the array of that name; None where there is none."""
        reference = self._recorded.get(name)
        if reference is None:
            return None
        return compare_programs(array, reference, self._settings)
