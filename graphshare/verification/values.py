"""Stage 3: both branches computed on equal inputs, each for itself, and every output compared.

When outputs differ, both branches run once more, side by side, to find the first pair of nodes that differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.formats.mxnet.document import operator_text
from graphshare.ir.graph import Entry, Node
from graphshare.ops.kernel import Array, Shape
from graphshare.verification.compare import Comparison, compare


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


def compare_values(
    left: Sequence[Entry],
    right: Sequence[Entry],
    pairs: Sequence[tuple[Node, Node]],
    values: tuple[Mapping[Node, Array], Mapping[Node, Array]],
    *,
    atol: float,
    rtol: float,
    shapes: Mapping[Node, Sequence[Shape]] | None = None,
) -> Values:
    """Runs the heads ``left`` and ``right`` on their variables' ``values`` and compares them pair by pair.

    ``pairs`` are the branches' nodes in topological order, for finding the first difference. ``shapes`` are the inferred shapes
    of the left branch's outputs, which hold for their twins too.
    """
    known = shapes or {}
    both = (known, {b: known[a] for a, b in pairs if a in known})
    a, b = (run_plan(make_plan(heads), of, shapes=s) for heads, of, s in zip((left, right), values, both, strict=True))
    outputs = tuple(
        OutputComparison(output_name(x), output_name(y), got.shape, str(got.dtype), compare(got, wanted, atol=atol, rtol=rtol))
        for x, y, wanted, got in zip(left, right, a.outputs, b.outputs, strict=True)
    )
    differs = not all(output.comparison for output in outputs)
    first = _first_difference(left, right, pairs, values, both, (atol, rtol)) if differs else None
    return Values(outputs, first, max(a.peak_bytes, b.peak_bytes))


def _first_difference(
    left: Sequence[Entry],
    right: Sequence[Entry],
    pairs: Sequence[tuple[Node, Node]],
    values: tuple[Mapping[Node, Array], Mapping[Node, Array]],
    shapes: tuple[Mapping[Node, Sequence[Shape]], Mapping[Node, Sequence[Shape]]],
    tolerance: tuple[float, float],
) -> FirstDifference | None:
    atol, rtol = tolerance
    for a, b in pairs:
        if a.is_variable:
            got, wanted = values[1][b], values[0][a]
            result = compare(got, wanted, atol=atol, rtol=rtol)
            if not result:
                return FirstDifference(a.name, b.name, operator_text(a), 0, result)
    kept: dict[Node, list[Array]] = {}

    def keep(node: Node, outputs: Sequence[Array]) -> None:
        kept[node] = [x.copy() for x in outputs]

    run_plan(make_plan(left), values[0], shapes=shapes[0], watch=keep)
    twins = {b: a for a, b in pairs}
    found: list[FirstDifference] = []

    def look(node: Node, outputs: Sequence[Array]) -> None:
        reference = twins.get(node)
        if found or reference is None:
            return
        for index, (got, wanted) in enumerate(zip(outputs, kept[reference], strict=False)):
            result = compare(got, wanted, atol=atol, rtol=rtol)
            if not result:
                found.append(FirstDifference(reference.name, node.name, node.op, index, result))
                return

    run_plan(make_plan(right), values[1], shapes=shapes[1], watch=look)
    return found[0] if found else None
