"""``run``: the outputs of a graph for given inputs and parameters, computed with numpy or another engine.

All at once or in batches, a few images at a time, whose outputs are joined on their batch axis; and the summaries of a run: of
its outputs, and of time and memory by node and by operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.batch_axis import follow_batch
from graphshare.analysis.name_lists import output_name
from graphshare.analysis.targets import resolve_targets
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.execute.engines.executor import Executor
from graphshare.execute.interpreter import Run, Timing, run_plan
from graphshare.execute.plan import make_plan
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.execute.prepare.prepare import prepare, runnable_part, unique_names
from graphshare.execute.prepare.variable_values import random_stream
from graphshare.formats.images.images import Images
from graphshare.formats.params.arrays import have_equal_values
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.progress import task
from graphshare.text.format import format_bytes, format_count, format_dims, format_names, format_number
from graphshare.text.summary import ShortRepr, Table, format_html


class NumericResult(ShortRepr):
    """A base class for results with arrays: two are equal if all but the measured times is."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = [name for name in getattr(self, "__struct_fields__", ()) if name not in ("seconds", "timings")]
        return all(have_equal_values(getattr(self, name), getattr(other, name)) for name in names)


class Computed(NumericResult, msgspec.Struct, eq=False):
    """The result of a run. ``outputs`` are arrays by MXNet's output names; equal names get the endings ``#1``, ``#2``...

    ``peak_bytes`` is the most that computed values took at one time, ``variable_bytes`` the size of the variables. ``notes``
    tell the user what was decided for them. Runs are compared without their times.
    """

    outputs: dict[str, Any]
    peak_bytes: int
    variable_bytes: int
    seconds: float
    timings: list[Timing]
    notes: list[str]

    def _summary(self) -> str:
        return f"{format_count(len(self.outputs), 'output')}, {self.seconds:.3g} s, at most {format_bytes(self.peak_bytes)}"

    def _repr_html_(self) -> str:
        """Return a summary of each output as a table, which notebooks show."""
        facts = [("note", note) for note in self.notes]
        return format_html(self._summary(), facts=facts, tables=[tabulate_outputs(self.outputs)])


class OutputSummary(msgspec.Struct, frozen=True):
    """One output. ``min``, ``max`` and ``mean`` are over its finite values, None where it has none."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    min: float | None
    max: float | None
    mean: float | None
    nonfinite: int


class NodeCost(msgspec.Struct, frozen=True):
    """The cost of one node; ``bytes`` are those of its outputs."""

    name: str
    op: str
    seconds: float
    bytes: int


class OperatorCost(msgspec.Struct, frozen=True):
    """The cost of all nodes of one operator together."""

    op: str
    nodes: int
    seconds: float
    bytes: int


class Profile(msgspec.Struct, frozen=True):
    """``nodes`` in the order of the run, ``operators`` by time, the slowest first."""

    nodes: list[NodeCost]
    operators: list[OperatorCost]


def run(
    graph: Graph,
    *,
    params: ParameterFile | None = None,
    feeds: Mapping[str, Any] | None = None,
    shapes: Mapping[str, GivenShape] | None = None,
    targets: Sequence[str] = (),
    seed: int | None = None,
    params_seed: int | None = None,
    profile: bool = False,
    all_outputs: bool = False,
    executor: Executor | None = None,
    where: str = "",
) -> Computed:
    """Computes the heads of ``graph``, or ``targets``, and only what they need.

    ``feeds`` are arrays by variable name, parameters too; an array of another type is converted where the types of the others
    settle its variable's. ``seed`` draws the inputs that are not fed (operators that draw use it too), ``params_seed`` the
    parameters that ``params`` does not hold. Labels and RNN states that are not fed are zeros. ``all_outputs`` returns every
    inner output too, in topological order, and the inputs. ``executor`` computes; without one numpy does. onnxruntime computes
    a graph without kernels, at sizes that it takes where some are open.

    Raises:
        UnsupportedError: operators that nothing here can compute; all are listed before anything runs.
        RefusedError: unknown names, shapes that do not fit, values that are missing; all of a kind are listed.
    """
    ready = prepare(
        graph,
        params=params,
        feeds=feeds or {},
        shapes=shapes or {},
        targets=targets,
        seed=seed,
        params_seed=params_seed,
        all_outputs=all_outputs,
        where=where,
    )
    started = perf_counter()
    rng = random_stream(seed or 0)
    if ready.session is not None:
        done = Run(ready.session.run({node.name: array for node, array in ready.values.items()}), {}, 0, [])
    elif executor is None or executor.engine is None:
        done = run_plan(make_plan(ready.part.heads), ready.values, shapes=ready.inference.shapes, rng=rng, profile=profile)
    else:
        done = executor.run(ready.part.heads, ready.values, ready.inference, ready.roles, rng=rng)
        ready.notes.extend(executor.notes)
    seconds = perf_counter() - started
    outputs = dict(zip(ready.names, done.outputs, strict=True))
    if ready.session is not None:
        outputs = _keep_arrays(outputs, ready.notes)
    return Computed(outputs, done.peak_bytes, ready.variable_bytes, seconds, done.timings, ready.notes)


def is_recordable(value: object) -> bool:
    """Whether a value is an array of numbers, which an .npz has a place for."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "fiub"


def _keep_arrays(outputs: Mapping[str, Any], notes: list[str]) -> dict[str, Array]:
    """Return the outputs that are arrays of numbers; add a note on others: texts, sequences and maps.

    Raises:
        RefusedError: there is no other.
    """
    kept = {name: value for name, value in outputs.items() if is_recordable(value)}
    others = [name for name in outputs if name not in kept]
    if others and not kept:
        message = f"no output is an array of numbers: {format_names(others, 6)}"
        raise RefusedError(Fault(message, hint="choose another value with `targets`"))
    notes += [f"left out, as they are not arrays of numbers: {format_names(others, 6)}"] if others else []
    return kept


def run_batches(
    graph: Graph,
    size: int,
    compute: Callable[[Mapping[str, Any]], Computed],
    *,
    feeds: Mapping[str, Any],
    targets: Sequence[str] = (),
) -> Computed:
    """Compute ``targets`` for ``size`` images at a time; ``compute`` runs ``graph`` with feeds, of which others stay the same.

    The last batch is filled up with the last image, and what that gives is dropped.

    Raises:
        UsageError: no feed is images, or two differ in their number.
        RefusedError: an operator mixes the samples of a batch, or what ``compute`` refuses.
    """
    images = {name: value for name, value in feeds.items() if isinstance(value, Images)}
    count = _count_images(images)
    axes = _find_batch_axes(graph, images, targets)
    parts = []
    with task("computing", count, "images") as advance:
        for start in range(0, count, size):
            indices = [min(number, count - 1) for number in range(start, start + size)]
            parts.append(compute({**feeds, **{name: value.take(indices) for name, value in images.items()}}))
            advance(min(size, count - start))
    outputs = {name: _join([part.outputs[name] for part in parts], axis, count, size) for name, axis in axes.items()}
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    peak, variables = max(part.peak_bytes for part in parts), max(part.variable_bytes for part in parts)
    return Computed(outputs, peak, variables, sum(part.seconds for part in parts), [], list(notes))


def _count_images(images: Mapping[str, Images]) -> int:
    if not images:
        hint = "feed a folder, as in `feeds={data: photos}`, or leave `batch` out"
        raise UsageError(Fault("`batch` is for images, and no `feeds` is one", hint=hint))
    counts = {name: len(value) for name, value in images.items()}
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{name} {number}" for name, number in counts.items())
        raise UsageError(Fault(f"`batch` needs as many images for each input; there are {numbers}"))
    return next(iter(counts.values()))


def _find_batch_axes(graph: Graph, images: Mapping[str, Images], targets: Sequence[str]) -> dict[str, int | None]:
    """Return the batch axis of each output by name; None for one that depends on no image.

    Raises:
        RefusedError: operators that mix the samples of a batch; all are listed.
    """
    heads = resolve_targets(targets, graph.nodes, option="`targets`") if targets else list(graph.heads)
    part, _ = runnable_part(graph, heads)
    nodes = post_order(entry.node for entry in part.heads)
    inputs = {node: 0 for node in nodes if node.is_variable and node.name in images}
    found, all_couplings = follow_batch(nodes, inputs, rank=4)
    couplings = [coupling for coupling in all_couplings if not coupling.only_training]
    if couplings:
        hint = "leave `batch` out: all images are one batch then"
        raise RefusedError([Fault(f"{c.node.op} {c.why}", node=c.node.name, hint=hint) for c in couplings])
    names = unique_names([output_name(entry) for entry in heads])
    places = [found.get((head.node, head.index)) for head in part.heads]
    return {name: None if at is None else at.axis for name, at in zip(names, places, strict=True)}


def _join(arrays: Sequence[Array], axis: int | None, count: int, size: int) -> Array:
    """Return the outputs of all batches as one, without what filled the last batch up."""
    if axis is None:
        return arrays[0]
    whole = np.concatenate(arrays, axis)
    per_image = whole.shape[axis] // (size * len(arrays))
    kept: Array = whole[(slice(None),) * axis + (slice(0, count * per_image),)]
    return kept


def summarize(name: str, array: Array) -> OutputSummary:
    """Summarize an output."""
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    nonfinite = array.size - finite.size
    if not finite.size:
        return OutputSummary(name, array.shape, str(array.dtype), None, None, None, nonfinite)
    low, high, mean = float(finite.min()), float(finite.max()), float(finite.mean(dtype="float64"))
    return OutputSummary(name, array.shape, str(array.dtype), low, high, mean, nonfinite)


def tabulate_outputs(outputs: Mapping[str, Array]) -> Table:
    """Return a table with a summary of each output."""
    rows = [
        (o.name, format_dims(o.shape), o.dtype, format_number(o.min), format_number(o.max), format_number(o.mean))
        for o in (summarize(name, np.asarray(array)) for name, array in outputs.items())
    ]
    return Table(("output", "shape", "dtype", "min", "max", "mean"), rows)


def profile_of(timings: Iterable[Timing]) -> Profile:
    """Return the timings by node and by operator."""
    nodes = [NodeCost(timing.node.name, timing.node.op, timing.seconds, timing.bytes) for timing in timings]
    groups: dict[str, list[NodeCost]] = {}
    for node in nodes:
        groups.setdefault(node.op, []).append(node)
    operators = [OperatorCost(op, len(of), sum(n.seconds for n in of), sum(n.bytes for n in of)) for op, of in groups.items()]
    return Profile(nodes, sorted(operators, key=lambda cost: -cost.seconds))
