"""``verify`` of an ONNX model against the graph that it was exported from, or that it should compute the same as."""

from __future__ import annotations

from typing import Any

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.targets import resolve_targets
from graphshare.checkpoint.local_copy import copy_from_url
from graphshare.errors import Fault, RefusedError
from graphshare.execute.engines.onnx_session import Session
from graphshare.execute.feeds import GivenShape
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.execute.prepare import Prepared, prepare
from graphshare.execute.variable_values import random_stream
from graphshare.formats.params.comparison import compare_arrays
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count, format_names
from graphshare.text.names import did_you_mean
from graphshare.verification.inputs import Settings
from graphshare.verification.report import BranchReport, Report
from graphshare.verification.sides import Side
from graphshare.verification.stages import Stage, value_stage
from graphshare.verification.values import OutputComparison, Values, largest


def verify_onnx(path: str, side: Side, settings: Settings) -> Report:
    """Run the ONNX model ``path`` in onnxruntime and a graph in the executor, on equal inputs, and compare the outputs.

    Inputs are paired by name, outputs by name or, where the names differ, in their order. The shapes of inputs are those of the
    model where it states them. Numbers may differ by ``rtol`` of the largest in their output.

    Raises:
        UsageError: onnxruntime is not installed.
        InputError: the model cannot be read.
        RefusedError: the model's inputs or outputs are not the graph's; shapes or values are missing.
    """
    with copy_from_url(path) as local:
        runtime = Session(local, where=path)
    names = {node.name for node in side.graph.variables()}
    faults = [
        Fault(f"the model's input {name!r} is not a variable of the graph", where=path, hint=did_you_mean(name, names))
        for name in runtime.inputs
        if name not in names
    ]
    if faults:
        raise RefusedError(faults)
    shapes = {name: tuple(s if isinstance(s, int) else None for s in shape) for name, shape in runtime.inputs.items()}
    targets = _find_targets(side, runtime)
    rounds: list[Values] = []
    notes: dict[str, None] = {}
    for number in range(settings.rounds):
        ready = _prepare(side, settings, shapes, targets, number)
        notes.update(dict.fromkeys(ready.notes))
        rounds.append(_compare(runtime, ready, settings, number))
    stages = [Stage("structure", "skipped", "an ONNX model has other nodes"), value_stage(rounds)]
    return Report((BranchReport("the graph", path, tuple(stages), tuple(rounds)),), tuple(notes))


def _find_targets(side: Side, runtime: Session) -> tuple[str, ...]:
    """Return the graph's outputs that the model has; none where those are its heads. Raises RefusedError."""
    heads = [output_name(entry) for entry in side.graph.heads]
    if len(runtime.outputs) == len(heads) and not set(runtime.outputs) - {*heads, *_numbered(heads)}:
        return ()
    known = {output_name(entry) for entry in side.graph.heads} | {name for name in runtime.outputs if _names_output(side, name)}
    if set(runtime.outputs) <= known:
        return tuple(runtime.outputs)
    if len(runtime.outputs) == len(heads):
        return ()
    message = f"the model has {format_count(len(runtime.outputs), 'output')} ({format_names(runtime.outputs, 4)})"
    raise RefusedError(Fault(f"{message} and the graph {len(heads)} ({format_names(heads, 4)})"))


def _numbered(names: list[str]) -> set[str]:
    return {f"{name}#{number}" for name in names for number in range(1, len(names))}


def _names_output(side: Side, name: str) -> bool:
    try:
        return len(resolve_targets([name], side.graph.nodes, option="--upto")) == 1
    except RefusedError:
        return False


def _prepare(side: Side, settings: Settings, shapes: dict[str, GivenShape], targets: tuple[str, ...], number: int) -> Prepared:
    given = {name: shape for name, shape in shapes.items() if name not in settings.feeds}
    return prepare(
        side.graph,
        params=side.params,
        feeds=settings.feeds,
        shapes={**given, **settings.shapes},
        targets=targets,
        seed=settings.seed + number,
        params_seed=settings.params_seed,
        as_input=settings.as_input,
    )


def _compare(runtime: Session, ready: Prepared, settings: Settings, number: int) -> Values:
    feeds: dict[str, Any] = {node.name: array for node, array in ready.values.items()}
    found = runtime.run(feeds)
    rng = random_stream(settings.seed + number)
    done = run_plan(make_plan(ready.part.heads), ready.values, shapes=ready.inference.shapes, rng=rng)
    outputs = [
        _compare_output(name, output, array, got, settings)
        for name, output, array, got in zip(ready.names, runtime.outputs, done.outputs, found, strict=True)
    ]
    return Values(tuple(outputs), None, done.peak_bytes)


def _compare_output(name: str, output: str, wanted: Array, found: Array, settings: Settings) -> OutputComparison:
    atol = settings.atol + settings.rtol * largest(wanted)
    comparison = compare_arrays(found, wanted, atol=atol, rtol=settings.rtol)
    return OutputComparison(name, output, tuple(found.shape), str(found.dtype), comparison)
