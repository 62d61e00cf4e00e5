"""Stage 3: both branches computed on equal inputs, each for itself, and every output compared; with layers, every inner one.

What equal means is written in :mod:`graphshare.formats.params.comparison`. When outputs differ, both branches run once more,
for the first pair of nodes that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
import numpy as np

from graphshare.analysis.branches import HeadPairs
from graphshare.analysis.name_lists import output_name, visible_outputs
from graphshare.execute.interpreter import run_plan
from graphshare.execute.memory import check_memory
from graphshare.execute.plan import make_plan
from graphshare.execute.variable_values import random_stream
from graphshare.formats.mxnet.document import operator_text
from graphshare.formats.params.comparison import Comparison, compare_arrays
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Node
from graphshare.ops.kernel import Array
from graphshare.verification.inputs import RoundValues

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
    """

    outputs: tuple[OutputComparison, ...]
    first: InnerComparison | None
    peak_bytes: int
    sizes_of: str | None = None
    layers: tuple[InnerComparison, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.outputs) and all(output.comparison for output in self.outputs)


def compare_values(
    pair: HeadPairs, pairing: Pairing, values: RoundValues, *, atol: float, rtol: float, layers: bool = False
) -> Values:
    """Run both branches on their variables' ``values`` and compare the heads pair by pair; ``layers``: inner ones too."""
    compare = partial(compare_arrays, atol=atol, rtol=rtol)
    if layers:
        check_memory(values.inference.nodes, pair.left, values.inference, values.left, keeps_all=True)
    a = run_plan(make_plan(pair.left), values.left, shapes=values.inference.shapes, rng=random_stream(values.seed))
    b = run_plan(make_plan(pair.right), values.right, shapes=values.right_inference.shapes, rng=random_stream(values.seed))
    outputs = tuple(
        OutputComparison(output_name(x), output_name(y), got.shape, str(got.dtype), compare(got, wanted))
        for x, y, wanted, got in zip(pair.left, pair.right, a.outputs, b.outputs, strict=True)
    )
    first: InnerComparison | None = None
    inner: tuple[InnerComparison, ...] = ()
    if layers or not all(output.comparison for output in outputs):
        first = next(_differing_variables(pairing, values, compare), None)
        inner = tuple(_compare_inner(pair, pairing, values, compare, to_first=not layers))
        first = first or next((layer for layer in inner if not layer.comparison), None)
    return Values(outputs, first, max(a.peak_bytes, b.peak_bytes), values.sizes_of, inner if layers else ())


def _differing_variables(pairing: Pairing, values: RoundValues, compare: Compare) -> Iterator[InnerComparison]:
    for a, b in pairing.pairs:
        if a.is_variable:
            result = compare(values.right[b], values.left[a])
            if not result:
                yield InnerComparison(a.name, b.name, operator_text(a), 0, result)


def _compare_inner(
    pair: HeadPairs, pairing: Pairing, values: RoundValues, compare: Compare, *, to_first: bool
) -> list[InnerComparison]:
    """Return the comparison of every visible output inside the branches; with ``to_first`` up to the first that differs."""
    kept: dict[Node, list[Array]] = {}

    def keep(node: Node, outputs: Sequence[Array]) -> None:
        kept[node] = [x.copy() for x in outputs]

    rng = random_stream(values.seed)
    run_plan(make_plan(pair.left), values.left, shapes=values.inference.shapes, watch=keep, rng=rng)
    references = {b: a for a, b in pairing.pairs}
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

    rng = random_stream(values.seed)
    run_plan(make_plan(pair.right), values.right, shapes=values.right_inference.shapes, watch=look, rng=rng)
    return found


def largest(array: Array) -> float:
    """Return the largest finite magnitude in an array of floats; 0 for other dtypes, which must be equal."""
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0
