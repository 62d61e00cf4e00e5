"""The outputs of a graph for given inputs and parameters, with summaries of values, time and memory.

Images may be computed in batches whose outputs are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.batch_axis import follow_batch
from graphshare.analysis.name_lists import name_outputs, resolve_targets
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.execute.backends.backend import REFERENCE
from graphshare.execute.interpreter import Timing
from graphshare.execute.prepare.fed_values import as_values
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.execute.prepare.prepare import Request, prepare, runnable_part
from graphshare.formats.images.images import Images
from graphshare.formats.params.arrays import have_equal_values
from graphshare.formats.params.narrow_dtypes import is_number, name_dtype, widen
from graphshare.ir.graph import Graph
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.progress import task
from graphshare.text.format import (
    format_bytes,
    format_count,
    format_dims,
    format_names,
    format_number,
)
from graphshare.text.names import did_you_mean
from graphshare.text.summary import ShortRepr, Table, format_html


class NumericResult(ShortRepr):
    """A base class for results with arrays: measured times and engines do not count when compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        for name in getattr(self, "__struct_fields__", ()):
            if name in ("seconds", "timings", "engine"):
                continue
            if not have_equal_values(getattr(self, name), getattr(other, name)):
                return False
        return True


class Computed(NumericResult, msgspec.Struct, eq=False):
    """The result of a run. ``outputs`` are arrays by MXNet's output names; equal names end in
    ``#1``, ``#2``...

    Outputs of an ONNX model may also be arrays of texts, lists of arrays (sequences), or None (an
    empty optional value). ``peak_bytes`` is the most that computed values took at one time,
    ``variable_bytes`` the size of the variables. ``notes`` list what was decided for the user,
    ``engine`` is the name of the engine. Times and engines do not count when runs are compared.
    """

    outputs: dict[str, Any]
    peak_bytes: int
    variable_bytes: int
    seconds: float
    timings: list[Timing]
    notes: list[str]
    engine: str = REFERENCE

    def __getitem__(self, name: str) -> Any:
        """Return the array of an output. Raises RefusedError for an unknown name."""
        if name not in self.outputs:
            hint = did_you_mean(name, self.outputs) or f"there are {format_names(self.outputs)}"
            raise RefusedError(Fault(f"there is no output {name!r}", hint=hint))
        return self.outputs[name]

    def __contains__(self, name: object) -> bool:
        return name in self.outputs

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the outputs."""
        return iter(self.outputs)

    def _summary(self) -> str:
        return (
            f"{format_count(len(self.outputs), 'output')}, {self.seconds:.3g} s, at most "
            f"{format_bytes(self.peak_bytes)}"
        )

    def _repr_html_(self) -> str:
        facts = [("note", note) for note in self.notes]
        return format_html(self._summary(), facts=facts, tables=[tabulate_outputs(self.outputs)])


class OutputSummary(msgspec.Struct, frozen=True):
    """One output. ``min``, ``max`` and ``mean`` are over finite values, None if there are none."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    min: float | None
    max: float | None
    mean: float | None
    nonfinite: int


class NodeCost(msgspec.Struct, frozen=True):
    """The cost of one node; ``bytes`` is the size of its outputs."""

    name: str
    op: str
    seconds: float
    bytes: int


class OperatorCost(msgspec.Struct, frozen=True):
    """The cost of an operator's nodes."""

    op: str
    nodes: int
    seconds: float
    bytes: int


class Profile(msgspec.Struct, frozen=True):
    """``nodes`` in the order of the run, ``operators`` by time, the slowest first."""

    nodes: list[NodeCost]
    operators: list[OperatorCost]


def compute_outputs(
    graph: Graph,
    request: Request,
    shapes: Mapping[str, GivenShape],
    profile: bool,
    values: Mapping[str, Any],
) -> Computed:
    """Compute a request with ``values`` of variables by name; ``profile`` measures each node.

    Raises:
        UnsupportedError: operators without a kernel; all are listed.
        RefusedError: names, shapes or values do not fit, or memory is not enough.
    """
    ready = prepare(graph, request, as_values(values, graph), shapes)
    started = perf_counter()
    done = ready.computation.run(ready.values, seed=request.draw.seed or 0, profile=profile)
    seconds = perf_counter() - started
    ready.notes.extend(ready.computation.notes)
    outputs = dict(zip(ready.names, done.outputs, strict=True))
    engine = ready.computation.engine
    return Computed(
        outputs, done.peak_bytes, ready.variable_bytes, seconds, done.timings, ready.notes, engine
    )


def is_recordable(value: object) -> bool:
    """Return whether a value is an array of numbers, fit for an .npz."""
    return isinstance(value, np.ndarray) and is_number(value.dtype)


def select_arrays(outputs: Mapping[str, Any], notes: list[str]) -> dict[str, Array]:
    """Return the outputs that are arrays of numbers; note others, and changed dtypes.

    Raises:
        RefusedError: no output is one.
    """
    kept = {name: widen(value) for name, value in outputs.items() if is_recordable(value)}
    others = [name for name in outputs if name not in kept]
    if others and not kept:
        message = f"no output is an array of numbers: {format_names(others, 6)}"
        raise RefusedError(Fault(message, hint="choose another value with `targets`"))
    if others:
        notes.append(f"left out, as they are not arrays of numbers: {format_names(others, 6)}")
    wide = [
        f"{name} (as {array.dtype})"
        for name, array in kept.items()
        if array.dtype != outputs[name].dtype
    ]
    if wide:
        names = format_names(wide, 6)
        notes.append(f"written with the same numbers in a dtype that numpy has: {names}")
    return kept


def run_batches(
    graph: Graph,
    size: int,
    compute: Callable[[Mapping[str, Any]], Computed],
    *,
    feeds: Mapping[str, Any],
    targets: Sequence[str] = (),
) -> Computed:
    """Compute ``targets`` for ``size`` images at a time; other feeds stay the same.

    The last image fills up the last batch; the extra results are dropped.

    Raises:
        UsageError: no feed is images, or two differ in their number.
        RefusedError: an operator mixes samples, or ``compute`` refuses a batch.
    """
    images = {name: value for name, value in feeds.items() if isinstance(value, Images)}
    count = _count_images(images)
    axes = _find_batch_axes(graph, images, targets)
    parts = []
    with task("computing", count, "images") as advance:
        for start in range(0, count, size):
            # A full batch: other shapes would be inferred and compiled again.
            indices = [min(number, count - 1) for number in range(start, start + size)]
            batch = {name: value.take(indices) for name, value in images.items()}
            parts.append(compute({**feeds, **batch}))
            advance(min(size, count - start))
    outputs = {
        name: _join([part.outputs[name] for part in parts], axis, count, size)
        for name, axis in axes.items()
    }
    # Most notes repeat in every batch.
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    peak = max(part.peak_bytes for part in parts)
    variables = max(part.variable_bytes for part in parts)
    seconds = sum(part.seconds for part in parts)
    return Computed(outputs, peak, variables, seconds, [], list(notes), parts[0].engine)


def _count_images(images: Mapping[str, Images]) -> int:
    if not images:
        hint = "feed a folder, as in `feeds={data: photos}`, or leave `batch` out"
        raise UsageError(Fault("`batch` needs images, but no `feeds` is one", hint=hint))
    counts = {name: len(value) for name, value in images.items()}
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{name} {number}" for name, number in counts.items())
        raise UsageError(
            Fault(f"`batch` needs the same number of images for each input; there are {numbers}")
        )
    return next(iter(counts.values()))


def _find_batch_axes(
    graph: Graph, images: Mapping[str, Images], targets: Sequence[str]
) -> dict[str, int | None]:
    """Return the batch axis of each output; None if it depends on no image.

    Raises:
        RefusedError: operators that mix the samples of a batch; all are listed.
    """
    heads = list(graph.heads)
    if targets:
        heads = resolve_targets(targets, graph.nodes, option="`targets`", heads=graph.heads)
    part, _ = runnable_part(graph, heads)
    nodes = post_order(entry.node for entry in part.heads)
    inputs = {node: 0 for node in nodes if node.is_variable and node.name in images}
    places_at, all_couplings = follow_batch(nodes, inputs, rank=4)
    # BatchNorm mixes samples in training only.
    couplings = [coupling for coupling in all_couplings if not coupling.only_training]
    if couplings:
        hint = "leave `batch` out: all images are one batch then"
        raise RefusedError(
            [Fault(f"{c.node.op} {c.why}", node=c.node.name, hint=hint) for c in couplings]
        )
    names = name_outputs(graph, heads)
    places = [places_at.get((head.node, head.index)) for head in part.heads]
    return {name: None if at is None else at.axis for name, at in zip(names, places, strict=True)}


def _join(arrays: Sequence[Array], axis: int | None, count: int, size: int) -> Array:
    """Join the outputs of all batches, without the added samples."""
    if axis is None:
        return arrays[0]
    whole = np.concatenate(arrays, axis)
    # An output may have several rows per image, such as boxes.
    per_image = whole.shape[axis] // (size * len(arrays))
    kept: Array = whole[(slice(None),) * axis + (slice(0, count * per_image),)]
    return kept


def summarize(name: str, value: Any) -> OutputSummary:
    """Summarize an output; texts, sequences and optional values have only a shape and a kind."""
    if not (isinstance(value, np.generic) or is_recordable(value)):
        return OutputSummary(name, *_describe_other(value), None, None, None, 0)
    array, dtype = widen(np.asarray(value)), name_dtype(value.dtype)
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    nonfinite = array.size - finite.size
    if not finite.size:
        return OutputSummary(name, array.shape, dtype, None, None, None, nonfinite)
    # A sum of many float32 values loses digits.
    low, high, mean = float(finite.min()), float(finite.max()), float(finite.mean(dtype="float64"))
    return OutputSummary(name, array.shape, dtype, low, high, mean, nonfinite)


def _describe_other(value: Any) -> tuple[tuple[int, ...], str]:
    if isinstance(value, np.ndarray):
        return value.shape, "string" if value.dtype.kind == "O" else str(value.dtype)
    if isinstance(value, list):
        return (len(value),), "sequence"
    return (), "nothing" if value is None else type(value).__name__


def tabulate_outputs(outputs: Mapping[str, Any]) -> Table:
    """Return a table with a summary of each output."""
    rows: list[tuple[str, ...]] = []
    for output in (summarize(name, value) for name, value in outputs.items()):
        numbers = map(format_number, (output.min, output.max, output.mean))
        rows.append((output.name, format_dims(output.shape), output.dtype, *numbers))
    return Table(("output", "shape", "dtype", "min", "max", "mean"), rows)


def make_profile(timings: Iterable[Timing]) -> Profile:
    """Return the timings by node and by operator."""
    nodes = [
        NodeCost(timing.node.name, timing.node.op, timing.seconds, timing.bytes)
        for timing in timings
    ]
    groups: dict[str, list[NodeCost]] = {}
    for node in nodes:
        groups.setdefault(node.op, []).append(node)
    operators = [
        OperatorCost(op, len(group), sum(n.seconds for n in group), sum(n.bytes for n in group))
        for op, group in groups.items()
    ]
    return Profile(nodes, sorted(operators, key=lambda cost: -cost.seconds))
