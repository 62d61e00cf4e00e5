"""Prove that sizes of a model are free: compare it, at several sizes, with the fixed model.

A sample's values must equal the original's for this sample alone, in any batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from graphshare.analysis.free_sizes import Symbol, list_trials, suggest_steps
from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import DisprovedError, Fault, InputError, RefusedError
from graphshare.execute.backends.backend import Computation, open_computation
from graphshare.execute.prepare.assignment import DrawOptions
from graphshare.execute.prepare.declared_inputs import list_declared
from graphshare.ir.graph import Entry, Node
from graphshare.onnx_ops.free_axes import list_names, multiply_numbers
from graphshare.onnx_ops.size_nodes import take_shapes
from graphshare.ops.kernel import Array
from graphshare.rewrite.free_sizes import FreedGraph
from graphshare.text.format import format_count, format_names
from graphshare.verification.comparison import (
    Tolerance,
    compare_values,
    explain_blank,
    find_share,
    tolerate_export,
)
from graphshare.verification.flow import WITHOUT_PROOF, ProofOptions, make_options
from graphshare.verification.inputs import choose_own
from graphshare.verification.report import Report, describe_difference
from graphshare.verification.whole_model import list_changed

_SAMPLES = 5  # enough for batches of three other sizes
_HINT = "nothing was written; leave these sizes fixed"


class SizesProof(msgspec.Struct, frozen=True):
    """The result of a proof.

    ``outputs`` and ``fixed`` count outputs equal at the file's and at fixed sizes; 0 if not
    compared. ``batches`` are the compared batch sizes, ``sizes`` others that were only computed;
    ``witnesses`` are models at other sizes with their verdicts. ``max_abs`` and ``of_largest`` are
    a sample's largest difference from the original: absolute, and relative to the output's largest
    number. ``optimized``: outputs at the file's sizes are equal bit for bit even with onnxruntime's
    optimizations. ``tells_apart``: samples differ in outputs, so mixed-up samples are noticed.
    """

    outputs: int = 0
    batches: tuple[int, ...] = ()
    sizes: tuple[Mapping[str, int], ...] = ()
    max_abs: float = 0.0
    of_largest: float = 0.0
    optimized: bool = True
    tells_apart: bool = True
    witnesses: tuple[tuple[str, str], ...] = ()
    fixed: int = 0


def prove_sizes(
    freed: Checkpoint,
    rewrite: FreedGraph,
    source: Checkpoint,
    options: ProofOptions | None = None,
    tolerance: float | None = None,
) -> SizesProof:
    """Compare ``freed``, a model with free sizes, with its source.

    Raises:
        UsageError: onnxruntime is not installed.
        DisprovedError: a value differs, or the model cannot be computed.
        RefusedError: an output shows nothing, or the model draws random numbers.
    """
    inputs = options or make_options(None, None, ())
    return _Trial(freed, rewrite, source, inputs, tolerate_export(tolerance)).prove()


def judge_witness(path: str, report: Report) -> str:
    """Return the verdict of a comparison with the network at other sizes, the file ``path``.

    Raises:
        DisprovedError: the file differs.
    """
    if report.outcome != "equal":
        reason = report.verdict
        for _, stage in report.list_stages("fails"):
            if stage.name == "values" and stage.details:
                reason = stage.details[-1]
        message = f"{path} differs from the model at its sizes: {reason}"
        raise DisprovedError(Fault(message, hint=_HINT))
    return report.verdict


def prove_fixed(fixed: Checkpoint, free: Checkpoint, options: ProofOptions) -> int:
    """Compare a model with fixed sizes, bit for bit, with the free one; count the outputs.

    Raises as :func:`prove_sizes`.
    """
    names = [output_name(head) for head in free.graph.heads]
    changed: list[str] = []
    runs: list[Sequence[Array]] = []
    for exact in (False, True):
        parts = [open_computation(model, exact=exact) for model in (fixed, free)]
        changed, runs = [], []
        for number, feeds in enumerate(options.list_feeds(fixed.graph) * options.inputs.rounds):
            fed = choose_own(parts[0].graph.variables(), feeds)
            drawn = parts[0].draw(fed, options=DrawOptions(options.inputs.seed + number)).values
            by_name = {node.name: value for node, value in drawn.items()}
            values, wanted = (_compute(part, by_name) for part in parts)
            runs.append(wanted)
            changed += list_changed(names, values, wanted)
        # Optimizations for fixed sizes may change the order of sums.
        if not changed:
            _require_numbers(names, runs)
            return len(names)
    raise DisprovedError(
        Fault(f"computes different bits at the fixed sizes: {format_names(changed)}", hint=_HINT)
    )


def _require_numbers(names: Sequence[str], runs: Sequence[Sequence[Array]]) -> None:
    """Raise RefusedError for outputs that show nothing in any run."""
    faults = []
    for name, values in zip(names, zip(*runs, strict=True), strict=True):
        reasons = list(map(explain_blank, values))
        if all(reasons):
            message = (
                f"{name!r}: {reasons[0]}, so nothing can be proved; `feeds` gives other inputs"
            )
            faults.append(Fault(message, hint=WITHOUT_PROOF))
    RefusedError.raise_any(faults)


def _compute(part: Computation, values: Mapping[str, Array]) -> list[Array]:
    return part.run(choose_own(part.graph.variables(), values)).outputs


def measure_shapes(
    model: Checkpoint, entries: Sequence[Entry], shapes: Mapping[str, Sequence[int]]
) -> dict[tuple[Node, int], Sequence[int]]:
    """Measure the shapes of values in onnxruntime, given ``shapes`` of inputs.

    Raises:
        GraphshareError: onnxruntime cannot compute them.
    """
    computation = open_computation(
        msgspec.structs.replace(model, graph=take_shapes(model.graph, entries))
    )
    fixed = choose_own(computation.graph.variables(), shapes)
    needed = {node: tuple(shape) for node, shape in fixed.items()}
    rows = computation.run(computation.draw(shapes=needed).values).outputs
    return {
        (entry.node, entry.index): row.tolist() for entry, row in zip(entries, rows, strict=True)
    }


class _NotComputedError(DisprovedError):
    """onnxruntime cannot compute the model at some sizes."""


class _Trial:
    """Both models, open for runs.

    ``batch`` is the symbol of the batch size or None, ``per_run`` its value in the file.
    """

    def __init__(
        self,
        freed: Checkpoint,
        rewrite: FreedGraph,
        source: Checkpoint,
        inputs: ProofOptions,
        tolerance: Tolerance,
    ) -> None:
        self.freed, self.rewrite, self.source, self.tolerance = freed, rewrite, source, tolerance
        self.original, self.changed = map(open_computation, (source, freed))
        self.inputs, self.sets = inputs.inputs, inputs.list_feeds(source.graph)
        self.names = [output_name(head) for head in source.graph.heads]
        self.batch = next(
            (symbol for symbol in rewrite.symbols if symbol.name in rewrite.batches), None
        )
        self.per_run = 1 if self.batch is None else rewrite.numbers[self.batch.name]
        self.base = {symbol.name: rewrite.numbers[symbol.name] for symbol in rewrite.symbols}
        self.max_abs = self.of_largest = 0.0
        self.tells_apart = self.batch is None

    def prove(self) -> SizesProof:
        """Compare both models. Raises DisprovedError."""
        # At least two sets, so that a batch mixes samples of different runs.
        least = max(2, -(-_SAMPLES // self.per_run), len(self.sets))
        drawn = self._draw(self.original, {}, least + self.inputs.rounds - 1)
        runs = [_compute(self.original, values) for values in drawn]
        # A model that draws numbers differs from itself.
        if list_changed(self.names, _compute(self.original, drawn[0]), runs[0]):
            message = "two runs of the model itself differ, so nothing can be proved"
            raise RefusedError(Fault(message, hint=WITHOUT_PROOF))
        _require_numbers(self.names, runs)
        is_optimized = self._prove_fixed(drawn[0], runs[0])
        # The batch comes first: its runs are compared with the original's.
        batches = self._prove_batch(drawn, runs)
        free = [
            symbol for symbol in self.rewrite.symbols if symbol.name not in self.rewrite.batches
        ]
        moved: list[Mapping[str, int]] = []
        for sizes in list_trials(free, self.base) if free else []:
            self._try_sizes(sizes, free)
            moved.append({name: size for name, size in sizes.items() if size != self.base[name]})
        return SizesProof(
            len(self.names),
            batches,
            tuple(moved),
            self.max_abs,
            self.of_largest,
            is_optimized,
            self.tells_apart,
        )

    def _try_sizes(self, sizes: Mapping[str, int], free: Sequence[Symbol]) -> None:
        """Compute the model at other sizes; compare its samples with single runs.

        Raises DisprovedError, with a hint if multiples would work.
        """
        try:
            drawn = self._draw(self.changed, sizes, 1 if self.batch is None else 2)
            self._prove_batch(drawn, [self._run(values, sizes) for values in drawn])
        except _NotComputedError as error:
            changed = [symbol for symbol in free if sizes[symbol.name] != self.base[symbol.name]]
            hint = suggest_steps(
                changed,
                self.base,
                lambda tried: self._run(self._draw(self.changed, tried, 1)[0], tried),
            )
            if not hint:
                raise
            raise DisprovedError(
                [msgspec.structs.replace(fault, hint=hint) for fault in error.faults]
            ) from None

    def _draw(
        self, part: Computation, sizes: Mapping[str, int], count: int
    ) -> list[dict[str, Array]]:
        """Draw ``count`` sets that differ only in samples, at free ``sizes`` or the file's."""
        nodes = {node.name: node for node in part.graph.variables()}
        ranks = {name: len(shape or ()) for name, (_, shape) in list_declared(part.graph).items()}
        shapes: dict[str, list[int | None]] = {}
        for symbol in self.rewrite.symbols if sizes else ():
            for name, axis in self._list_places(symbol):
                shapes.setdefault(name, [None] * ranks[name])[axis] = sizes[symbol.name]
        fixed = {nodes[name]: tuple(shape) for name, shape in shapes.items()}
        batched = [] if self.batch is None else [name for name, _ in self._list_places(self.batch)]
        sets: list[dict[str, Array]] = []
        for number in range(count):
            options = DrawOptions(self.inputs.seed + number)
            values = self._feed(part.draw(shapes=fixed, options=options).values, number)
            if sets:
                # Inputs without samples, such as a threshold, are common to a batch.
                values = {**sets[0], **{name: values[name] for name in batched}}
            sets.append(values)
        return sets

    def _feed(self, drawn: Mapping[Node, Array], number: int) -> dict[str, Array]:
        """Return given values by name, or random picks from them for other shapes and sets."""
        stated = self.sets[number % len(self.sets)]
        rng = np.random.default_rng(self.inputs.seed + number)
        values = {node.name: value for node, value in drawn.items()}
        for name, like in values.items():
            if name not in stated:
                continue
            array = np.asarray(stated[name])
            is_own = array.shape == like.shape and number < len(self.sets)
            if not is_own:
                array = rng.choice(array.ravel(), like.shape)
            values[name] = array.astype(like.dtype)
        return values

    def _list_places(self, symbol: Symbol) -> list[tuple[str, int]]:
        needed = {node.name for node in self.original.graph.variables()}
        return [(name, axis) for name, axis in symbol.places if name in needed]

    def _run(self, feeds: Mapping[str, Array], sizes: Mapping[str, int]) -> list[Array]:
        try:
            return _compute(self.changed, feeds)
        except (InputError, RefusedError) as error:
            at = ", ".join(f"{name} {size}" for name, size in sizes.items())
            first = error.faults[0]
            message = f"cannot be computed with {at}: {first.message}"
            raise _NotComputedError(
                Fault(message, where=self.source.where, node=first.node, hint=_HINT)
            ) from None

    def _disprove(self, message: str) -> DisprovedError:
        return DisprovedError(Fault(message, where=self.source.where, hint=_HINT))

    def _prove_fixed(self, feeds: Mapping[str, Array], wanted: Sequence[Array]) -> bool:
        """Compare at the file's sizes; return whether outputs are equal even with optimizations."""
        if not list_changed(self.names, self._run(feeds, self.base), wanted):
            return True
        # Without optimizations: some need fixed sizes, and change the order of sums.
        plain = [
            _compute(open_computation(model, exact=True), feeds)
            for model in (self.freed, self.source)
        ]
        if names := list_changed(self.names, *plain):
            raise self._disprove(
                f"computes different bits at the sizes of the file: {format_names(names)}"
            )
        return False

    def _prove_batch(
        self, drawn: Sequence[Mapping[str, Array]], runs: Sequence[Sequence[Array]]
    ) -> tuple[int, ...]:
        """Compare batches with ``runs`` of single samples; return their sizes."""
        if self.batch is None:
            return ()
        shapes = {tuple(output.shape for output in run) for run in runs}
        if len(shapes) > 1:
            message = (
                "outputs have different shapes for different samples, so nothing can be proved"
            )
            raise RefusedError(Fault(message, hint=WITHOUT_PROOF))
        wanted: list[Array] = []
        for place in range(len(self.names)):
            samples = [self._split(run[place], place, self.per_run) for run in runs]
            wanted.append(np.concatenate(samples))
        self.tells_apart |= any(not np.array_equal(rows[0], rows[-1]) for rows in wanted)
        count = len(drawn) * self.per_run
        # The file's size is proved. `count` is last: its outputs are used below.
        sizes = sorted(
            {1, 2, 3, self.per_run + 1, count} - {self.per_run} & set(range(count)) | {count}
        )
        for size in sizes:
            whole = self._run_rows(drawn, range(size), wanted)
        # Exchange all samples but the first or the last: neither a later nor an earlier one may
        # matter.
        for kept in (0, count - 1):
            order = [(row + 1) % count for row in range(count)]
            order[kept] = kept
            moved = self._run_rows(drawn, order, wanted)
            for name, a, b in zip(self.names, moved, whole, strict=True):
                # Bit for bit: only other samples have changed.
                if not np.array_equal(a[kept], b[kept], equal_nan=a.dtype.kind == "f"):
                    raise self._disprove(
                        f"{name!r} of a sample depends on the other samples of the batch"
                    )
        return tuple(sizes)

    def _run_rows(
        self, drawn: Sequence[Mapping[str, Array]], rows: Sequence[int], wanted: Sequence[Array]
    ) -> list[Array]:
        """Return chosen samples' outputs along the first axis. Raises DisprovedError."""
        assert self.batch is not None
        feeds = dict(drawn[0])
        for name, axis in self._list_places(self.batch):
            feeds[name] = np.concatenate([values[name] for values in drawn], axis).take(rows, axis)
        outputs = self._run(feeds, {self.batch.name: len(rows)})
        parts = [self._split(output, place, len(rows)) for place, output in enumerate(outputs)]
        for name, part, whole in zip(self.names, parts, wanted, strict=True):
            expected = whole[list(rows)]
            result = compare_values(part, expected, self.tolerance)
            if not result:
                text = describe_difference(result)
                count = format_count(len(rows), "sample")
                raise self._disprove(f"{name!r} of {count} differs from the original's: {text}")
            self.max_abs = max(self.max_abs, result.max_abs)
            self.of_largest = max(self.of_largest, find_share(result, expected) or 0.0)
        return parts

    def _split(self, output: Array, place: int, count: int) -> Array:
        """Return samples along the first axis, repeated if the output has none."""
        assert self.batch is not None
        for number, axis in enumerate(self.rewrite.outputs[place]):
            if self.batch.name in axis:
                position = axis.index(self.batch.name)
                before, after = axis[:position], axis[position + 1 :]
                # The factors on one side have numbers; the size of the other side follows.
                is_last = bool(list_names(before))
                known = multiply_numbers(after if is_last else before)
                rest = output.shape[number] // (count * known) if known else 0
                sizes = (rest, count, known) if is_last else (known, count, rest)
                shape = (*output.shape[:number], *sizes, *output.shape[number + 1 :])
                return np.moveaxis(output.reshape(shape), number + 1, 0)
        return np.broadcast_to(output, (count, *output.shape))
