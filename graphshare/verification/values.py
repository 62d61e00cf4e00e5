"""Stage 3: both branches computed on equal inputs, each for itself, and every output compared; with layers, every inner one.

What equal means is written in :mod:`graphshare.formats.params.comparison`. When outputs differ, both branches run once more,
for the first pair of nodes that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from graphshare.analysis.branches import HeadPairs
from graphshare.analysis.name_lists import output_name, visible_outputs
from graphshare.analysis.roles import Role
from graphshare.analysis.shapes import Inference
from graphshare.execute.engines.executor import Executor, Watch
from graphshare.execute.engines.registry import NUMPY
from graphshare.execute.interpreter import Run
from graphshare.execute.memory import check_memory
from graphshare.execute.variable_values import random_stream
from graphshare.formats.mxnet.document import operator_text
from graphshare.formats.params.comparison import Comparison, compare_arrays
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.verification.inputs import RoundValues, Settings

Compare = Callable[[Array, Array], Comparison]


class OutputComparison(msgspec.Struct, frozen=True):
    """One output of the reference and its twin."""

    reference: str
    output: str
    shape: tuple[int, ...]
    dtype: str
    comparison: Comparison


class InnerComparison(msgspec.Struct, frozen=True):
    """Output ``output`` of a pair of nodes inside the branches, with the operator (``null`` for a variable)."""

    reference: str
    node: str
    op: str
    output: int
    comparison: Comparison


class Values(msgspec.Struct, frozen=True):
    """The result of one run of both branches.

    ``first`` is the first difference in topological order, None when there is none. ``layers`` are the inner outputs in that
    order, where they were asked for. ``sizes_of`` is the branch that the sizes and feeds are from, None if all have the same.
    ``engine`` is what computed both.
    """

    outputs: tuple[OutputComparison, ...]
    first: InnerComparison | None
    peak_bytes: int
    sizes_of: str | None = None
    layers: tuple[InnerComparison, ...] = ()
    engine: str = NUMPY

    def __bool__(self) -> bool:
        return bool(self.outputs) and all(output.comparison for output in self.outputs)


class EngineComparison(msgspec.Struct, frozen=True):
    """The outputs of both branches in ``engine`` beside those in ``reference``, on one set of inputs.

    ``first`` is the first node, in topological order, whose outputs differ, where those of a branch do.
    """

    reference: str
    engine: str
    outputs: tuple[OutputComparison, ...]
    first: InnerComparison | None
    sizes_of: str | None = None

    def __bool__(self) -> bool:
        return bool(self.outputs) and all(output.comparison for output in self.outputs)


class BranchOutputs(msgspec.Struct, frozen=True, eq=False):
    """The heads of both branches as one engine computed them."""

    left: list[Array]
    right: list[Array]


def compare_values(
    pair: HeadPairs,
    pairing: Pairing,
    values: RoundValues,
    executor: Executor,
    roles: Mapping[Node, Role],
    settings: Settings,
    engine: str = NUMPY,
) -> tuple[Values, BranchOutputs]:
    """Run both branches on their variables' ``values`` and compare the heads pair by pair, with ``layers`` inner ones too."""
    compare = partial(compare_arrays, atol=settings.atol, rtol=settings.rtol)
    if settings.layers:
        check_memory(values.inference.nodes, pair.left, values.inference, values.left, keeps_all=True)
    branches = _Branches(pair, values, executor, roles)
    a, b = branches.run_left(), branches.run_right()
    outputs = tuple(
        OutputComparison(output_name(x), output_name(y), got.shape, str(got.dtype), compare(got, wanted))
        for x, y, wanted, got in zip(pair.left, pair.right, a.outputs, b.outputs, strict=True)
    )
    first: InnerComparison | None = None
    inner: tuple[InnerComparison, ...] = ()
    if settings.layers or not all(output.comparison for output in outputs):
        first = next(_differing_variables(pairing, values, compare), None)
        references = {b: a for a, b in pairing.pairs}
        to_first = not settings.layers
        inner = tuple(_compare_inner(branches.run_left, branches.run_right, references, compare, to_first=to_first))
        first = first or next((layer for layer in inner if not layer.comparison), None)
    peak = max(a.peak_bytes, b.peak_bytes)
    compared = Values(outputs, first, peak, values.sizes_of, inner if settings.layers else (), engine)
    return compared, BranchOutputs(a.outputs, b.outputs)


def compare_engines(
    pair: HeadPairs,
    values: RoundValues,
    computed: Mapping[str, BranchOutputs],
    executors: Mapping[str, Executor],
    roles: Mapping[Node, Role],
    settings: Settings,
) -> list[EngineComparison]:
    """Compare the heads of both branches that the first engine computed with those of every other, on equal values."""
    compare = partial(compare_programs, settings=settings)
    (name, wanted), *others = computed.items()
    reference = _Branches(pair, values, executors[name], roles)
    found = []
    for engine, got in others:
        branches = _Branches(pair, values, executors[engine], roles)
        sides = (
            (pair.left, wanted.left, got.left, reference.run_left, branches.run_left),
            (pair.right, wanted.right, got.right, reference.run_right, branches.run_right),
        )
        outputs: list[OutputComparison] = []
        first: InnerComparison | None = None
        for heads, right_ones, ones, run_reference, run in sides:
            compared = [
                OutputComparison(output_name(x), output_name(x), b.shape, str(b.dtype), compare(b, a))
                for x, a, b in zip(heads, right_ones, ones, strict=True)
            ]
            if first is None and not all(output.comparison for output in compared):
                same = {node: node for node in post_order(entry.node for entry in heads)}
                first = next((x for x in _compare_inner(run_reference, run, same, compare) if not x.comparison), None)
            outputs += compared
        found.append(EngineComparison(name, engine, tuple(outputs), first, values.sizes_of))
    return found


class _Branches:
    """Both branches as one engine runs them."""

    def __init__(self, pair: HeadPairs, values: RoundValues, executor: Executor, roles: Mapping[Node, Role]) -> None:
        self._pair, self._values, self._executor, self._roles = pair, values, executor, roles

    def run_left(self, watch: Watch | None = None) -> Run:
        """Run the reference."""
        return self._run(self._pair.left, self._values.left, self._values.inference, watch)

    def run_right(self, watch: Watch | None = None) -> Run:
        """Run the branch."""
        return self._run(self._pair.right, self._values.right, self._values.right_inference, watch)

    def _run(self, heads: Sequence[Entry], values: Mapping[Node, Array], inference: Inference, watch: Watch | None) -> Run:
        rng = random_stream(self._values.seed)
        return self._executor.run(heads, values, inference, self._roles, rng=rng, watch=watch)


def _differing_variables(pairing: Pairing, values: RoundValues, compare: Compare) -> Iterator[InnerComparison]:
    for a, b in pairing.pairs:
        if a.is_variable:
            result = compare(values.right[b], values.left[a])
            if not result:
                yield InnerComparison(a.name, b.name, operator_text(a), 0, result)


def _compare_inner(
    run_reference: Callable[[Watch], Run],
    run: Callable[[Watch], Run],
    references: Mapping[Node, Node],
    compare: Compare,
    *,
    to_first: bool = True,
) -> list[InnerComparison]:
    """Return the comparison of every visible output of two runs; with ``to_first`` up to the first that differs.

    ``references`` has the node of the first run that a node of the second is compared with.
    """
    kept: dict[Node, list[Array]] = {}

    def keep(node: Node, outputs: Sequence[Array]) -> None:
        kept[node] = [x.copy() for x in outputs]

    run_reference(keep)
    found: list[InnerComparison] = []

    def look(node: Node, outputs: Sequence[Array]) -> None:
        reference = references.get(node)
        if reference is None or (to_first and found and not found[-1].comparison):
            return
        visible = outputs if to_first else outputs[: sum(1 for _ in visible_outputs(node))]
        for index, (got, wanted) in enumerate(zip(visible, kept.pop(reference), strict=False)):
            found.append(InnerComparison(reference.name, node.name, node.op, index, compare(got, wanted)))
            if to_first and not found[-1].comparison:
                return

    run(look)
    return found


def compare_programs(got: Array, wanted: Array, settings: Settings) -> Comparison:
    """Compare what two programs computed: ``rtol`` is of numbers or of the largest, as each sums in an order of its own."""
    return compare_arrays(got, wanted, atol=max(settings.atol, settings.rtol * largest(wanted)), rtol=settings.rtol)


def largest(array: Array) -> float:
    """Return the largest finite magnitude in an array of floats; 0 for other dtypes, which must be equal."""
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0
