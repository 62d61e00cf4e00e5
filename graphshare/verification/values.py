"""Stage 3: both branches computed on equal inputs, each for itself, and every output compared.

What equal means is written in :mod:`graphshare.formats.params.comparison`. When outputs differ, both branches run once more,
for the first pair of nodes that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from graphshare.analysis.branches import HeadPairs
from graphshare.analysis.name_lists import output_name
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.formats.mxnet.document import operator_text
from graphshare.formats.params.comparison import Comparison, compare_arrays
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Node
from graphshare.ops.kernel import Array, Shape
from graphshare.verification.inputs import RoundValues


class OutputComparison(msgspec.Struct, frozen=True):
    """One output of the reference and its twin."""

    reference: str
    output: str
    shape: tuple[int, ...]
    dtype: str
    comparison: Comparison


class FirstDifference(msgspec.Struct, frozen=True):
    """The first pair of nodes, in topological order, whose values differ, with the operator and the comparison."""

    reference: str
    node: str
    op: str
    output: int
    comparison: Comparison


class Values(msgspec.Struct, frozen=True):
    """The result of one round. ``first`` is None when all outputs are equal."""

    outputs: tuple[OutputComparison, ...]
    first: FirstDifference | None
    peak_bytes: int

    def __bool__(self) -> bool:
        return bool(self.outputs) and all(output.comparison for output in self.outputs)


def compare_values(pair: HeadPairs, pairing: Pairing, values: RoundValues, *, atol: float, rtol: float) -> Values:
    """Run the heads of both branches on their variables' ``values`` and compare them pair by pair."""
    shapes = values.inference.shapes
    twins = {b: shapes[a] for a, b in pairing.pairs if a in shapes}
    a = run_plan(make_plan(pair.left), values.left, shapes=shapes)
    b = run_plan(make_plan(pair.right), values.right, shapes=twins)
    outputs = tuple(
        OutputComparison(
            output_name(x), output_name(y), got.shape, str(got.dtype), compare_arrays(got, wanted, atol=atol, rtol=rtol)
        )
        for x, y, wanted, got in zip(pair.left, pair.right, a.outputs, b.outputs, strict=True)
    )
    equal = all(output.comparison for output in outputs)
    first = None if equal else _first_difference(pair, pairing, values, twins, partial(compare_arrays, atol=atol, rtol=rtol))
    return Values(outputs, first, max(a.peak_bytes, b.peak_bytes))


def _first_difference(
    pair: HeadPairs,
    pairing: Pairing,
    values: RoundValues,
    twin_shapes: Mapping[Node, Sequence[Shape]],
    comparison: Callable[[Array, Array], Comparison],
) -> FirstDifference | None:
    """Return the first pair of nodes, in topological order, whose values differ."""
    for a, b in pairing.pairs:
        if a.is_variable:
            result = comparison(values.right[b], values.left[a])
            if not result:
                return FirstDifference(a.name, b.name, operator_text(a), 0, result)
    kept: dict[Node, list[Array]] = {}

    def keep(node: Node, outputs: Sequence[Array]) -> None:
        kept[node] = [x.copy() for x in outputs]

    run_plan(make_plan(pair.left), values.left, shapes=values.inference.shapes, watch=keep)
    references = {b: a for a, b in pairing.pairs}
    differences: list[FirstDifference] = []

    def look(node: Node, outputs: Sequence[Array]) -> None:
        reference = references.get(node)
        if differences or reference is None:
            return
        for index, (got, wanted) in enumerate(zip(outputs, kept[reference], strict=False)):
            result = comparison(got, wanted)
            if not result:
                differences.append(FirstDifference(reference.name, node.name, node.op, index, result))
                return

    run_plan(make_plan(pair.right), values.right, shapes=twin_shapes, watch=look)
    return differences[0] if differences else None


def largest(array: Array) -> float:
    """Return the largest finite magnitude in an array of floats; 0 for other dtypes, which must be equal."""
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0
