"""Recorded outputs as one side of a comparison: a file of arrays by name, or ONNX's test data."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.branches import find_twins
from graphshare.analysis.name_lists import list_implied_variables
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, RefusedError
from graphshare.execute.engines.executor import Executor
from graphshare.execute.prepare.fed_values import as_values
from graphshare.execute.prepare.prepare import Prepared, prepare
from graphshare.execute.run import is_recordable
from graphshare.files.paths import is_folder, join, list_names
from graphshare.formats.model_names import ARRAY_ENDINGS
from graphshare.formats.params.array_files import read_arrays
from graphshare.formats.params.narrow_dtypes import narrow
from graphshare.ir.graph import EMPTY, Graph
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count, format_names
from graphshare.verification.comparison import Tolerance, Values, compare_runs, tolerate_other_program
from graphshare.verification.flow import ProofOptions, describe_engines, find_drawing, leave_drawn
from graphshare.verification.input_sets import read_recorded
from graphshare.verification.report import BranchReport, Report, layer_stage, value_stage
from graphshare.verification.runners import ABSENT, RecordRunner

THIS = "this graph"
_NAMED = 6
_TENSOR = re.compile(r"(input|output)_(\d+)\.pb")
_TEST_DATA = Tolerance(atol=1e-7, rtol=1e-3)
"""The tolerance of onnx.backend.test."""


class Record(msgspec.Struct, frozen=True, eq=False):
    """Recorded arrays: ``arrays`` by name, and those of test data by the numbers of ``inputs`` and ``outputs``.

    ``title`` is what messages call the record; ``sets`` are the folders of test data.
    """

    title: str
    arrays: Mapping[str, Array] = EMPTY
    sets: Sequence[str] = ()


def find_record(source: Any) -> Record | None:
    """Return a record, if ``source`` is one: arrays by name, a file of arrays, or a folder of test data; else None."""
    if isinstance(source, Record):
        return source
    if isinstance(source, Mapping):
        return Record("the recorded arrays", source)
    path = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
    if path.lower().endswith(tuple(ARRAY_ENDINGS)):
        return Record(path, read_arrays(path))
    folders = _list_sets(path) if path and is_folder(path) else []
    return Record(path, sets=folders) if folders else None


def _list_sets(folder: str) -> list[str]:
    """Return the folder, and those in it, that hold outputs of test data."""
    inner = [join(folder, name) for name in sorted(list_names(folder), key=lambda name: (len(name), name))]
    places = [folder, *filter(is_folder, inner)]
    return [place for place in places if any(_TENSOR.fullmatch(name) and name[0] == "o" for name in list_names(place))]


def compare_record(model: Checkpoint, record: Record, options: ProofOptions, tolerance: Tolerance | None) -> Report:
    """Run a model on the recorded inputs and compare its outputs, with ``layers`` every inner one, with those of the record.

    An array with the name of an input is fed, unless ``feeds`` has another. One with the name of a parameter is fed where the
    parameter file does not hold it, and compared with the file's where it does. Every output must be recorded; inner outputs
    that are not are counted. Values may differ by ``rtol`` of themselves or of the largest in their output: another program
    sums in another order.

    Raises:
        RefusedError: shapes do not fit, values are missing, names that belong to no variable; all of a kind are listed.
        UnsupportedError: operators without a kernel; all are listed.
    """
    own = options.tolerance if tolerance is not None or not record.sets else _TEST_DATA
    rule = tolerate_other_program(own.atol, own.rtol)
    executors = options.choose_executors(model.graph, model.where)
    notes: dict[str, None] = {}
    rounds: dict[str | None, list[Values]] = {name: [] for name in executors}
    missing = 0
    for arrays in [*(_read_set(folder, model.graph) for folder in record.sets)] or [as_values(record.arrays, model.graph)]:
        for name, executor in executors.items():
            values, lacks = _compare_set(model, arrays, record.title, executor, options, rule, notes)
            rounds[name].append(values)
            missing = max(missing, lacks)
    notes.update(describe_engines(executors))
    branches = []
    for name, compared in rounds.items():
        stages = [value_stage(compared)]
        if options.layers:
            stages.append(layer_stage(compared, missing=missing))
        this = THIS if len(executors) == 1 else f"{THIS} in {name}"
        branches.append(BranchReport(record.title, this, tuple(stages), tuple(compared), tolerance=rule, is_record=True))
    return Report(tuple(branches), tuple(notes))


def _compare_set(
    model: Checkpoint,
    recorded: Mapping[str, Array],
    title: str,
    executor: Executor | None,
    options: ProofOptions,
    rule: Tolerance,
    notes: dict[str, None],
) -> tuple[Values, int]:
    """Return the comparison of one set of recorded arrays, and how many inner outputs are not recorded."""
    held = list_parameter_names(model.parameter_file) or ()
    variables = _list_variables(model.graph)
    inputs = {key: array for key, array in recorded.items() if key in variables and key not in held}
    fed = inputs.keys() - options.feeds.keys()
    ready = _prepare(model, {**inputs, **options.feeds}, executor, options, recorded)
    notes.update(dict.fromkeys(ready.notes))
    done = ready.computation.run(ready.values, seed=options.inputs.seed)
    computed = list(zip(ready.names, ready.part.heads, done.outputs, strict=True))
    own_dtypes = {name: value.dtype for name, _, value in computed if is_recordable(value)}
    # A file of numpy has the numbers of what numpy has no arrays of in another dtype.
    recorded = {
        name: narrow(x, own_dtypes[name]) if name in own_dtypes and is_recordable(x) else x for name, x in recorded.items()
    }
    heads = [(name, value) for name, _, value in computed if name in ready.wanted]
    lost = [name for name, value in heads if name not in recorded and not is_recordable(value)]
    if lost:
        hint = "`graphshare compare` with another model compares them, and `graphshare extract` leaves them out"
        raise RefusedError(
            Fault(f"outputs cannot be recorded because they are not arrays of numbers: {format_names(lost)}", hint=hint)
        )
    nodes = post_order(entry.node for entry in ready.part.heads)
    known, _ = ready.computation.complete(ready.values)
    wanted = [n for n in nodes if n.is_variable and n.name in recorded.keys() - fed and n in known]
    compared = {(n, 0): (n.name, known[n]) for n in wanted}
    inner = {(e.node, e.index): (name, value) for name, e, value in computed if not e.node.is_variable}
    compared |= {place: named for place, named in inner.items() if named[0] in recorded}
    names = {place: name for place, (name, _) in compared.items()}
    reference = RecordRunner(
        title, [recorded.get(name, ABSENT) for name, _ in heads], {p: recorded[n] for p, n in names.items()}, names
    )
    own = RecordRunner(THIS, [value for _, value in heads], {p: value for p, (_, value) in compared.items()}, names)
    own.engine, own.peak_bytes = ready.computation.engine, done.peak_bytes
    pairs = [(node, node) for node in nodes]
    values = compare_runs([(name, name) for name, _ in heads], reference, own, rule, nodes=pairs, layers=options.layers)
    places = [place for place, (name, _, _) in enumerate(computed) if name in ready.wanted]
    drawing = {places.index(place): node for place, node in find_drawing(ready.computation).items() if place in places}
    _note_rest([key for key in recorded if key not in {*ready.names, *variables}], title, options, notes)
    return leave_drawn(values, drawing), len(inner.keys() - names.keys())


def _note_rest(names: Sequence[str], title: str, options: ProofOptions, notes: dict[str, None]) -> None:
    if names and options.layers:
        notes[f"{title} has arrays with names that the graph does not have: {format_names(names, _NAMED)}"] = None
    elif names:
        notes[f"{title} has {format_count(len(names), 'array')} beside the outputs; `layers` compares inner outputs"] = None


def _prepare(
    model: Checkpoint,
    feeds: Mapping[str, Array],
    executor: Executor | None,
    options: ProofOptions,
    recorded: Collection[str],
) -> Prepared:
    """Return the graph, with ``layers`` of every output; feeds and shapes hold for all branches."""
    feeds, shapes = find_twins(model.graph).spread(feeds, options.shapes, ())
    try:
        return prepare(
            model.graph,
            params=model.parameter_file,
            feeds=feeds,
            shapes=shapes,
            targets=options.targets,
            seed=options.inputs.seed,
            params_seed=options.inputs.params_seed,
            all_outputs=options.layers,
            as_input=options.as_input,
            where=model.where,
            executor=executor,
        )
    except RefusedError as error:
        raise error.with_location(model.where) from error.__cause__


def _read_set(folder: str, graph: Graph) -> dict[str, Any]:
    recorded = read_recorded(folder, graph)
    return {**recorded.inputs, **recorded.outputs}


def _list_variables(graph: Graph) -> set[str]:
    return {node.name for node in graph.variables()} | {implied.name for implied in list_implied_variables(graph)}
