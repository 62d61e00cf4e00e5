"""Recorded outputs as one side of a comparison: a file of arrays by name, or ONNX's test data."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from graphshare.analysis.branches import find_twins
from graphshare.analysis.name_lists import list_implied_variables
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, RefusedError
from graphshare.execute.backends.backend import ChosenEngine
from graphshare.execute.outputs import is_recordable
from graphshare.execute.prepare.assignment import DrawOptions
from graphshare.execute.prepare.fed_values import as_values
from graphshare.execute.prepare.prepare import Prepared, Request, prepare
from graphshare.files.paths import is_folder, list_names
from graphshare.formats.model_names import ARRAY_ENDINGS
from graphshare.formats.params.array_files import read_arrays
from graphshare.formats.params.narrow_dtypes import narrow
from graphshare.ir.graph import EMPTY, Node
from graphshare.ir.terms import Place
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count, format_names
from graphshare.verification.comparison import (
    Tolerance,
    Values,
    compare_runs,
    tolerate_other_program,
)
from graphshare.verification.flow import ProofOptions, describe_engines, find_drawing, leave_drawn
from graphshare.verification.input_sets import list_folders, read_recorded
from graphshare.verification.report import BranchReport, Report, layer_stage, value_stage
from graphshare.verification.runners import ABSENT, RecordRunner

THIS = "this graph"
_NAMED = 6
_OUTPUT = re.compile(r"output_\d+\.pb")
_TEST_DATA = Tolerance(atol=1e-7, rtol=1e-3)
"""The tolerance of onnx.backend.test."""


class Recording(msgspec.Struct, frozen=True, eq=False):
    """Recorded arrays by name, or folders of test data; ``title`` names them in messages."""

    title: str
    arrays: Mapping[str, Array] = EMPTY
    sets: Sequence[str] = ()


def find_record(source: Any) -> Recording | None:
    """Read ``source`` if it is a record: arrays by name, a file of them, or test data."""
    if isinstance(source, Recording):
        return source
    if isinstance(source, Mapping):
        return Recording("the recorded arrays", source)
    if not isinstance(source, str | os.PathLike):
        return None
    path = os.fspath(source)
    if path.lower().endswith(tuple(ARRAY_ENDINGS)):
        return Recording(path, read_arrays(path))
    if not is_folder(path):
        return None
    places = list_folders(path)
    folders = [place for place in places if any(map(_OUTPUT.fullmatch, list_names(place)))]
    return Recording(path, sets=folders) if folders else None


def compare_record(
    model: Checkpoint, record: Recording, options: ProofOptions, tolerance: Tolerance | None
) -> Report:
    """Run a model on recorded inputs and compare its outputs, with ``layers`` also inner outputs.

    An array named like an input is fed, unless ``feeds`` replaces it. One named like a parameter is
    compared with the parameter file, or fed if the file lacks it. Every output must be recorded;
    missing inner outputs are counted. Values may differ by ``rtol`` of themselves or of the largest
    in their output: another program sums in a different order.

    Raises:
        RefusedError: shapes do not fit, values are missing, or names belong to no variable.
        UnsupportedError: operators have no kernel.
    """
    own = options.tolerance
    if record.sets and tolerance is None:
        own = _TEST_DATA
    rule = tolerate_other_program(own)
    executors = options.choose_executors(model.graph, model.where)
    comparer = _RecordingComparer(model, record.title, options, rule)
    rounds: dict[str | None, list[Values]] = {name: [] for name in executors}
    sets = [read_recorded(folder, model.graph) for folder in record.sets]
    if not sets:
        sets.append(as_values(record.arrays, model.graph))
    for arrays in sets:
        for name, executor in executors.items():
            rounds[name].append(comparer.compare(arrays, executor))
    notes = {**comparer.notes, **describe_engines(executors)}
    branches = []
    for name, compared in rounds.items():
        stages = [value_stage(compared)]
        if options.layers:
            stages.append(layer_stage(compared, missing=comparer.missing))
        this = THIS if len(executors) == 1 else f"{THIS} in {name}"
        branches.append(
            BranchReport(
                record.title, this, tuple(stages), tuple(compared), tolerance=rule, is_record=True
            )
        )
    return Report(tuple(branches), tuple(notes))


class _Recorded(msgspec.Struct, eq=False):
    """An output or parameter by its recorded name; ``wanted`` may be ``ABSENT``.

    Its random numbers come from the operator ``drawing``.
    """

    name: str
    place: Place
    value: Any
    wanted: Any
    drawing: Node | None = None

    def __post_init__(self) -> None:
        # numpy files widen dtypes that numpy lacks.
        if is_recordable(self.value) and is_recordable(self.wanted):
            self.wanted = narrow(self.wanted, self.value.dtype)

    @property
    def is_lost(self) -> bool:
        """Whether no record could contain it."""
        return self.wanted is ABSENT and not is_recordable(self.value)


class _RecordingComparer:
    """Runs a model on recorded inputs; ``missing`` is the most inner outputs missing from a set."""

    def __init__(
        self, model: Checkpoint, title: str, options: ProofOptions, rule: Tolerance
    ) -> None:
        self.notes: dict[str, None] = {}
        self.missing = 0
        self._model, self._title, self._options, self._rule = model, title, options, rule
        self._held = list_parameter_names(model.parameter_file) or ()
        self._variables = {node.name for node in model.graph.variables()}
        self._variables.update(implied.name for implied in list_implied_variables(model.graph))

    def compare(self, recorded: Mapping[str, Any], executor: ChosenEngine) -> Values:
        ready = self._prepare(recorded, executor)
        done = ready.computation.run(ready.values, seed=self._options.inputs.seed)
        drawing = find_drawing(ready.computation.graph)
        computed: list[_Recorded] = []
        values = zip(ready.names, ready.part.heads, done.outputs, strict=True)
        for number, (name, head, value) in enumerate(values):
            wanted = recorded.get(name, ABSENT)
            place = head.node, head.index
            computed.append(_Recorded(name, place, value, wanted, drawing.get(number)))
        outputs = [output for output in computed if output.name in ready.wanted]
        lost = [output.name for output in outputs if output.is_lost]
        if lost:
            message = f"outputs cannot be recorded because they are not arrays of numbers: {format_names(lost)}"
            raise RefusedError(
                Fault(
                    message,
                    hint="`gs.compare` with another model compares them, and `gs.extract` leaves them out",
                )
            )
        inner = [output for output in computed if not output.place[0].is_variable]
        known = [output for output in inner if output.wanted is not ABSENT]
        self.missing = max(self.missing, len(inner) - len(known))
        known = [*self._list_parameters(ready, recorded), *known]
        reference = _make_runner(self._title, outputs, known, attrgetter("wanted"))
        own = _make_runner(THIS, outputs, known, attrgetter("value"))
        own.engine, own.peak_bytes = ready.computation.engine, done.peak_bytes
        own.inputs = _choose_inputs(ready)
        names = [(output.name, output.name) for output in outputs]
        nodes = [(output.place[0], output.place[0]) for output in known]
        compared = compare_runs(
            names, reference, own, self._rule, nodes=nodes, layers=self._options.layers
        )
        drawn = {place: o.drawing for place, o in enumerate(outputs) if o.drawing is not None}
        return leave_drawn(compared, drawn)

    def _prepare(self, recorded: Mapping[str, Any], executor: ChosenEngine) -> Prepared:
        """Feeds hold for all branches; ``layers`` are of all outputs."""
        model, options = self._model, self._options
        inputs = {
            name: array
            for name, array in recorded.items()
            if name in self._variables and name not in self._held
        }
        feeds, shapes = find_twins(model.graph).spread(
            {**inputs, **options.feeds}, options.shapes, ()
        )
        try:
            request = Request(
                draw=DrawOptions(options.inputs.seed, options.inputs.params_seed),
                params=model.parameter_file,
                targets=options.targets,
                all_outputs=options.layers,
                as_input=options.as_input,
                where=model.where,
                executor=executor,
            )
            ready = prepare(model.graph, request, feeds, shapes)
        except RefusedError as error:
            raise error.with_location(model.where) from error.__cause__
        self.notes.update(dict.fromkeys(ready.notes))
        rest = [name for name in recorded if name not in {*ready.names, *self._variables}]
        if rest:
            unknown = (
                f"arrays with names that the graph does not have: {format_names(rest, _NAMED)}"
            )
            beside = f"{format_count(len(rest), 'array')} beside the outputs; `layers` compares inner outputs"
            self.notes[f"{self._title} has {unknown if options.layers else beside}"] = None
        return ready

    def _list_parameters(self, ready: Prepared, recorded: Mapping[str, Any]) -> Iterator[_Recorded]:
        known, _ = ready.computation.complete(ready.values)
        for node in post_order(entry.node for entry in ready.part.heads):
            if not node.is_variable or node not in known:
                continue
            has_own = node.name in self._held or node.name in self._options.feeds
            if has_own and node.name in recorded:
                yield _Recorded(node.name, (node, 0), known[node], recorded[node.name])


def _choose_inputs(ready: Prepared) -> dict[Node, Any]:
    is_parameter = ready.computation.is_parameter
    return {node: value for node, value in ready.values.items() if not is_parameter(node)}


def _make_runner(
    title: str,
    outputs: Sequence[_Recorded],
    inner: Sequence[_Recorded],
    get: Callable[[_Recorded], Any],
) -> RecordRunner:
    return RecordRunner(
        title, list(map(get, outputs)), {each.place: (each.name, get(each)) for each in inner}
    )
