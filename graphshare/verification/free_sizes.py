"""The proof that sizes of a model are free: it is computed in onnxruntime at several sizes, beside the model with fixed ones.

A sample of a batch must have the values that the original gives for it alone, whatever the other samples are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from graphshare.analysis.free_sizes import list_trials
from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import DisprovedError, Fault, GraphshareError, InputError, RefusedError
from graphshare.execute.engines.session_model import SessionPart
from graphshare.execute.prepare.declared_inputs import draw_values
from graphshare.formats.onnx.compose import make_operator
from graphshare.formats.onnx.free_axes import Axis
from graphshare.ir.graph import Entry, Node
from graphshare.ops.kernel import Array
from graphshare.rewrite.unfix import UnfixedGraph
from graphshare.text.format import format_count, format_names
from graphshare.verification.compare import EXACT, Tolerance, compare_values, find_largest, tolerate_export

_SAMPLES = 3


class SizesProof(msgspec.Struct, frozen=True):
    """How many ``outputs`` were compared, at which numbers of samples and which other ``sizes``.

    ``max_abs`` and ``of_largest`` are how far a sample is at most from what the original gives for it: by itself, and of the
    largest number of the output. ``optimized`` tells that the outputs at the sizes of the file are equal bit for bit with
    onnxruntime's optimizations too, and not only without them.
    """

    outputs: int
    batches: tuple[int, ...]
    sizes: tuple[Mapping[str, int], ...]
    max_abs: float
    of_largest: float
    optimized: bool


def prove_sizes(unfixed: Checkpoint, rewrite: UnfixedGraph, source: Checkpoint, tolerance: float | None) -> SizesProof:
    """Return what was compared of a model with free sizes and its source.

    Raises:
        UsageError: onnxruntime is not installed.
        DisprovedError: a value differs, or the model is not computed.
    """
    return _Trial(unfixed, rewrite, source, tolerate_export(tolerance)).prove()


def measure_shapes(
    model: Checkpoint, entries: Sequence[Entry], shapes: Mapping[str, Sequence[int]]
) -> dict[tuple[Node, int], Sequence[int]]:
    """Return the shapes that values have in onnxruntime for ``shapes`` of inputs; none where it does not compute them."""
    measured = [
        msgspec.structs.replace(make_operator("Shape", (f"shape {number}",)), inputs=(entry,))
        for number, entry in enumerate(entries)
    ]
    try:
        part = SessionPart(model.graph, [Entry(node) for node in measured], model.parameter_file, model.where)
        given = {name: tuple(shape) for name, shape in shapes.items() if name in part.session.inputs}
        rows = part.run(draw_values(part, {}, given, 0).values)
    except GraphshareError:
        return {}
    return {(entry.node, entry.index): row.tolist() for entry, row in zip(entries, rows, strict=True)}


class _Trial:
    def __init__(self, unfixed: Checkpoint, rewrite: UnfixedGraph, source: Checkpoint, tolerance: Tolerance) -> None:
        self.unfixed, self.rewrite, self.source, self.tolerance = unfixed, rewrite, source, tolerance
        self.parts = self._open(source), self._open(unfixed)
        self.names = [output_name(head) for head in source.graph.heads]
        self.batch = next((symbol for symbol in rewrite.symbols if symbol.name in rewrite.batches), None)
        self.per_run = 1 if self.batch is None else rewrite.numbers[self.batch.name]
        self.max_abs = self.of_largest = 0.0

    def _open(self, model: Checkpoint, *, optimize: bool = True) -> SessionPart:
        return SessionPart(model.graph, model.graph.heads, model.parameter_file, model.where, optimize=optimize)

    def prove(self) -> SizesProof:
        original, changed = self.parts
        drawn = self._draw_samples(original, {}, -(-_SAMPLES // self.per_run))
        runs = [original.run(values) for values in drawn]
        is_optimized = self._prove_fixed(drawn[0], runs[0])
        batches = self._prove_batch(drawn, runs)
        others = self._list_others()
        for number, sizes in enumerate(others):
            try:
                drawn = self._draw_samples(changed, sizes, 2 if self.batch is not None else 1)
                runs = [self._run(values, sizes) for values in drawn]
            except DisprovedError:
                if number + 1 < len(others):
                    raise
                others.pop()  # the odd sizes, which the network itself need not take
                break
            self._prove_batch(drawn, runs)
        return SizesProof(len(self.names), batches, tuple(others), self.max_abs, self.of_largest, is_optimized)

    def _draw_samples(self, part: SessionPart, sizes: Mapping[str, int], count: int) -> list[dict[str, Array]]:
        """Return ``count`` sets of inputs, with free ``sizes``, or at those of the file. Only samples differ between them."""
        first, *others = (self._draw(part, sizes, seed) for seed in range(count))
        batched = [name for name, _ in self.batch.places] if self.batch is not None else []
        return [first, *({**first, **{name: values[name] for name in batched}} for values in others)]

    def _draw(self, part: SessionPart, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
        shapes: dict[str, list[int | None]] = {}
        for symbol in self.rewrite.symbols if sizes else ():
            for name, axis in symbol.places:
                shape = shapes.setdefault(name, [None] * len(part.session.inputs[name]))
                shape[axis] = sizes[symbol.name]
        return draw_values(part, {}, {name: tuple(shape) for name, shape in shapes.items()}, seed).values

    def _list_others(self) -> list[dict[str, int]]:
        """Return the sizes beside those of the file, all with the batch of the file."""
        free = [symbol for symbol in self.rewrite.symbols if symbol.name not in self.rewrite.batches]
        base = {symbol.name: self.rewrite.numbers[symbol.name] for symbol in self.rewrite.symbols}
        return list_trials(free, base)[len(free) == 1 :] if free else []

    def _run(self, feeds: Mapping[str, Array], sizes: Mapping[str, int]) -> list[Array]:
        try:
            return self.parts[1].run(feeds)
        except (InputError, RefusedError) as error:
            at = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise self._disprove(f"cannot be computed with {at}: {error.faults[0].message}") from None

    def _disprove(self, message: str) -> DisprovedError:
        return DisprovedError(Fault(message, where=self.source.where, hint="nothing was written; leave these sizes fixed"))

    def _prove_fixed(self, feeds: Mapping[str, Array], wanted: Sequence[Array]) -> bool:
        """Compare the models at the sizes of the file; return whether they are equal with optimizations too."""
        sizes = {symbol.name: self.rewrite.numbers[symbol.name] for symbol in self.rewrite.symbols}
        if not self._find_other(self._run(feeds, sizes), wanted):
            return True
        plain = [self._open(model, optimize=False).run(feeds) for model in (self.unfixed, self.source)]
        if names := self._find_other(*plain):
            raise self._disprove(f"computes other bits at the sizes of the file: {format_names(names)}")
        return False

    def _find_other(self, values: Sequence[Array], wanted: Sequence[Array]) -> list[str]:
        pairs = zip(self.names, values, wanted, strict=True)
        return [name for name, a, b in pairs if not compare_values(a, b, EXACT).identical]

    def _prove_batch(self, drawn: Sequence[Mapping[str, Array]], runs: Sequence[Sequence[Array]]) -> tuple[int, ...]:
        """Compare batches of other sizes with ``runs`` of the samples by themselves; return these sizes."""
        if self.batch is None:
            return ()
        wanted = [np.concatenate([self._split(values[i], i, self.per_run) for values in runs]) for i in range(len(self.names))]
        count = len(drawn) * self.per_run
        sizes = sorted({1, 2, count, self.per_run + 1} - {self.per_run} & set(range(count + 1)))
        for size in sizes:
            self._compare(self._run_rows(drawn, range(size)), wanted, range(size))
        whole = self._run_rows(drawn, range(count))
        for kept in (0, count - 1):
            order = [row if row == kept else (row + 1) % count for row in range(count)]
            moved = self._run_rows(drawn, order)
            self._compare(moved, wanted, order)
            for name, a, b in zip(self.names, moved, whole, strict=True):
                if not np.array_equal(a[kept : kept + 1], b[kept : kept + 1], equal_nan=True):
                    raise self._disprove(f"{name!r} of a sample depends on the other samples of the batch")
        return tuple(sizes)

    def _run_rows(self, drawn: Sequence[Mapping[str, Array]], rows: Sequence[int]) -> list[Array]:
        """Return the outputs for samples by number, the samples of each first."""
        assert self.batch is not None
        feeds = dict(drawn[0])
        for name, axis in self.batch.places:
            feeds[name] = np.concatenate([values[name] for values in drawn], axis).take(rows, axis)
        outputs = self._run(feeds, {self.batch.name: len(rows)})
        return [self._split(output, place, len(rows)) for place, output in enumerate(outputs)]

    def _split(self, output: Array, place: int, count: int) -> Array:
        """Return an output with the samples on the first axis; one that has none once for each."""
        assert self.batch is not None
        for number, axis in enumerate(self.rewrite.outputs[place]):
            if self.batch.name in axis:
                inner = self._count_inner(axis, output.shape[number], count)
                shape = (*output.shape[:number], -1, count, inner, *output.shape[number + 1 :])
                return np.moveaxis(output.reshape(shape), number + 1, 0)
        return np.broadcast_to(output, (count, *output.shape))

    def _count_inner(self, axis: Axis, size: int, count: int) -> int:
        """Return how many elements of an axis lie together for each sample."""
        assert self.batch is not None
        outer = axis[: axis.index(self.batch.name)]
        times = 1
        for factor in outer:
            times *= factor if isinstance(factor, int) else self.rewrite.numbers[factor]
        return size // (count * times)

    def _compare(self, values: Sequence[Array], wanted: Sequence[Array], rows: Sequence[int]) -> None:
        for name, value, all_rows in zip(self.names, values, wanted, strict=True):
            expected = all_rows[list(rows)]
            result = compare_values(value, expected, self.tolerance)
            if not result:
                count = format_count(len(rows), "sample")
                raise self._disprove(f"{name!r} of {count} differs from the original's: {result.reason or result.max_abs}")
            self.max_abs = max(self.max_abs, result.max_abs)
            if result.max_abs:
                self.of_largest = max(self.of_largest, result.max_abs / (find_largest(expected) or 1.0))
