"""Comparison of computed values: tolerances, outputs pair by pair, the first inner difference.

:mod:`graphshare.formats.params.comparison` defines equality of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.arguments import NotNegative, Options
from graphshare.errors import InputError, RefusedError
from graphshare.formats.params.comparison import Comparison, compare_arrays
from graphshare.formats.params.narrow_dtypes import is_floating, name_dtype, widen
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.verification.runners import ABSENT, Refused, Runner, has_refused

# Fractions of an output's largest number; the docstring of compare() states two of them.
_EXPORTED = {"bfloat16": 8e-2, "float16": 1e-2, "float32": 1e-4, "float64": 1e-9}
# Two steps at 1: dtypes with fewer bits have no numbers between 0 and 10 steps.
_EXPORTED |= {
    "float8e4m3fn": 0.25,
    "float8e4m3fnuz": 0.25,
    "float8e5m2": 0.5,
    "float8e5m2fnuz": 0.5,
    "float4e2m1": 1.0,
}
_STEP = ("int8", "uint8")
TITLES = ("the original", "the other model")
_ARRAYS = (np.ndarray, np.generic)
_APART = float("inf")
_SAME = Comparison(True, True, 0.0, 0.0)


class Tolerance(Options, frozen=True):
    """The allowed distance from a reference's number: ``rtol`` of that number, plus ``atol`` or ``of_largest``.

    ``of_largest`` is relative to the largest finite number of the reference's array. It and ``rtol``
    apply to floats; integers may differ by ``atol``.
    """

    atol: NotNegative = 0.0
    rtol: NotNegative = 0.0
    of_largest: NotNegative = 0.0

    def find_limit(self, wanted: Array) -> float:
        """Return the allowed distance from ``wanted``, in addition to ``rtol``."""
        if not self.of_largest or not is_floating(wanted.dtype):
            return self.atol
        return max(self.atol, self.of_largest * find_largest(wanted))


Tolerate = Callable[[Any, Any], Tolerance]
"""Returns the tolerance for a value and the wanted value."""
BY_ELEMENT = Tolerance(1e-8, 1e-5)
"""The default tolerance, the same as numpy's isclose."""
EXACT = Tolerance()
"""The tolerance of branches of one model in one session: no difference."""


def tolerate_other_program(chosen: Tolerance) -> Tolerance:
    """Return the tolerance for two programs: each sums in its own order."""
    return Tolerance(chosen.atol, chosen.rtol, of_largest=max(chosen.rtol, chosen.of_largest))


def tolerate_batch(chosen: Tolerance) -> Tolerance:
    """Return the tolerance of a batch against single samples: reordered sums differ near zero."""
    return Tolerance(chosen.atol, chosen.rtol, of_largest=max(1e-5, chosen.of_largest))


class DtypeTolerance(Tolerance, frozen=True, kw_only=True):
    """The tolerance of models in different dtypes; ``dtype`` is the least precise one."""

    dtype: str


def tolerate_dtype(dtype: str, chosen: Tolerance) -> DtypeTolerance:
    """Return the tolerance for the least precise ``dtype``: an export's, or a larger chosen one."""
    of_largest = max(chosen.rtol, chosen.of_largest, _EXPORTED[dtype])
    return DtypeTolerance(chosen.atol, chosen.rtol, of_largest=of_largest, dtype=dtype)


class ExportTolerance(Tolerance, frozen=True, kw_only=True):
    """The tolerance of an exported model: ``by_dtype`` of the largest number for floats, else 0.

    int8 may be one step off, because programs round either way. An array of zeros counts as ones.
    """

    by_dtype: Mapping[str, float]

    def find_limit(self, wanted: Array) -> float:
        dtype = name_dtype(wanted.dtype)
        if not is_floating(wanted.dtype):
            return 1.0 if dtype in _STEP else 0.0
        return self.by_dtype.get(dtype, 0.0) * (find_largest(wanted) or 1.0)


def tolerate_export(tolerance: float | None) -> ExportTolerance:
    """Return an export's tolerance; ``tolerance`` overrides it for all floats."""
    return ExportTolerance(
        by_dtype=_EXPORTED if tolerance is None else dict.fromkeys(_EXPORTED, tolerance)
    )


class OutputComparison(msgspec.Struct, frozen=True):
    """The comparison of one output with its counterpart in the reference.

    ``of_largest`` is the largest distance relative to the reference's largest finite number, None
    if unknown. ``unjudged`` is the reason for not judging it. ``blank`` says why equal values show
    nothing in this run.
    """

    reference: str
    output: str
    shape: tuple[int, ...]
    dtype: str
    comparison: Comparison
    of_largest: float | None = None
    unjudged: str = ""
    blank: str = ""

    @property
    def differs(self) -> bool:
        return not self.comparison and not self.unjudged


class InnerComparison(msgspec.Struct, frozen=True):
    """One output of a pair of inner nodes; ``op`` is ``null`` for a variable."""

    reference: str
    node: str
    op: str
    output: int
    comparison: Comparison


class Values(msgspec.Struct, frozen=True):
    """The result of one run of both branches.

    ``first`` is the first difference in topological order, or None. ``layers`` are inner outputs in
    that order, if requested. ``sizes_of`` is the branch whose sizes and feeds were used, None if
    all agree.
    """

    outputs: tuple[OutputComparison, ...]
    first: InnerComparison | None
    peak_bytes: int
    sizes_of: str | None
    layers: tuple[InnerComparison, ...]
    engine: str

    def __bool__(self) -> bool:
        return bool(self.outputs) and not any(output.differs for output in self.outputs)

    def with_outputs(self, outputs: Sequence[OutputComparison]) -> Values:
        """Replace the comparisons; if none differs, ``first`` is dropped."""
        first = None if all(output.comparison for output in outputs) else self.first
        return msgspec.structs.replace(self, outputs=tuple(outputs), first=first)


class EngineComparison(msgspec.Struct, frozen=True):
    """Both branches' outputs in ``engine`` and in ``reference``, on one set of inputs.

    ``first`` is the first differing node in topological order.
    """

    reference: str
    engine: str
    outputs: tuple[OutputComparison, ...]
    first: InnerComparison | None
    sizes_of: str | None = None

    def __bool__(self) -> bool:
        return bool(self.outputs) and all(output.comparison for output in self.outputs)


def compare_runs(
    names: Sequence[tuple[str, str]],
    reference: Runner,
    runner: Runner,
    tolerance: Tolerance,
    *,
    nodes: Sequence[tuple[Node, Node]] = (),
    layers: bool = False,
    sizes_of: str | None = None,
) -> Values:
    """Compare two runners' outputs in order, and inner outputs of ``nodes`` if an output differs.

    ``names`` are the outputs' on both sides, ``nodes`` pairs that compute the same. ``layers`` asks
    for all inner outputs. Raises InputError or RefusedError if inner values cannot be computed
    although the outputs are equal.
    """
    pairs = list(zip(names, reference.run(), runner.run(), strict=True))
    is_fed_nothing = any(map(_is_empty, runner.inputs.values()))
    outputs = tuple(
        _compare_output(
            both, value, wanted, tolerance, reference.title, is_fed_nothing=is_fed_nothing
        )
        for both, wanted, value in pairs
    )
    are_equal = all(output.comparison for output in outputs)
    # A side that rejects its inputs has no inner values.
    is_refused = any(has_refused(both) for _, *both in pairs)
    inner: list[InnerComparison] = []
    first: InnerComparison | None = None
    if not is_refused and (layers or not are_equal):
        try:
            inner = _compare_inner(
                reference, runner, {b: a for a, b in nodes}, tolerance, to_first=not layers
            )
        except (InputError, RefusedError):
            # Different outputs are already an answer.
            if are_equal:
                raise
        apart = (output for output in inner if not output.comparison)
        first = next(chain(_find_variables(nodes, reference, runner, tolerance), apart), None)
    peak = max(reference.peak_bytes, runner.peak_bytes)
    return Values(outputs, first, peak, sizes_of, tuple(inner) if layers else (), runner.engine)


def compare_engines(
    branches: Sequence[tuple[Runner, Runner, Sequence[Entry]]],
    tolerance: Tolerance,
    *,
    sizes_of: str | None = None,
) -> EngineComparison:
    """Compare both engines' runs of each branch, given with its heads."""
    outputs: list[OutputComparison] = []
    first: InnerComparison | None = None
    for reference, runner, heads in branches:
        names = [(name, name) for name in map(output_name, heads)]
        nodes = [(node, node) for node in post_order(entry.node for entry in heads)]
        values = compare_runs(names, reference, runner, tolerance, nodes=nodes)
        outputs += values.outputs
        if first is None:
            first = values.first
    reference, runner, _ = branches[0]
    return EngineComparison(reference.engine, runner.engine, tuple(outputs), first, sizes_of)


def _compare_output(
    names: tuple[str, str],
    value: Any,
    wanted: Any,
    tolerance: Tolerance,
    title: str,
    *,
    is_fed_nothing: bool,
) -> OutputComparison:
    comparison = compare_values(value, wanted, tolerance, title)
    share = find_share(comparison, wanted)
    blank = explain_blank(value, is_fed_nothing=is_fed_nothing)
    return OutputComparison(*names, *describe_value(value), comparison, share, blank=blank)


def _is_empty(value: Any) -> bool:
    return isinstance(value, _ARRAYS) and not value.size


def explain_blank(value: Any, *, is_fed_nothing: bool = False) -> str:
    """Return why a value that equals its counterpart shows nothing; empty if it shows something.

    A model may return no elements for inputs that have some, such as boxes above a threshold.
    """
    if isinstance(value, list):
        reasons = {explain_blank(each, is_fed_nothing=is_fed_nothing) for each in value}
        return reasons.pop() if len(reasons) == 1 else ""
    if _is_empty(value) and is_fed_nothing:
        return "it has no elements, since an input has none"
    is_float = isinstance(value, _ARRAYS) and is_floating(value.dtype) and value.size
    return "all its numbers are NaN" if is_float and np.isnan(widen(value)).all() else ""


def _find_variables(
    nodes: Sequence[tuple[Node, Node]], reference: Runner, runner: Runner, tolerance: Tolerance
) -> Iterator[InnerComparison]:
    for a, b in nodes:
        if a in reference.variables and b in runner.variables:
            result = compare_values(runner.variables[b], reference.variables[a], tolerance)
            if not result:
                yield InnerComparison(a.name, b.name, b.operator_text, 0, result)


def _compare_inner(
    reference: Runner,
    runner: Runner,
    partners: Mapping[Node, Node],
    tolerance: Tolerance,
    *,
    to_first: bool,
) -> list[InnerComparison]:
    """``partners`` maps nodes to the reference's; ``to_first`` stops at a difference."""
    if not partners:
        return []
    kept: dict[tuple[Node, int], Any] = {}
    compared: list[InnerComparison] = []

    def keep(node: Node, index: int, value: Any) -> None:
        # A copy, because the executor reuses the buffer.
        kept[node, index] = value.copy() if isinstance(value, _ARRAYS) else value

    def look(node: Node, index: int, value: Any) -> None:
        partner = partners.get(node)
        if partner is None or (partner, index) not in kept:
            return
        if to_first and compared and not compared[-1].comparison:
            return
        # Popping frees memory during the second run.
        result = compare_values(value, kept.pop((partner, index)), tolerance)
        name = reference.label(partner, index)
        compared.append(InnerComparison(name, node.name, node.operator_text, index, result))

    reference.watch(keep)
    runner.watch(look)
    return compared


def compare_values(value: Any, wanted: Any, tolerance: Tolerance, title: str = "") -> Comparison:
    """Compare arrays, lists of arrays or optionals (None). ``title`` is the reference's."""
    if wanted is ABSENT:
        return _differ(f"{title} does not have it")
    for side in (value, wanted):
        if isinstance(side, Refused):
            return _differ(f"one model alone does not compute it: {side.reason}")
    if isinstance(value, list) and isinstance(wanted, list):
        return _compare_sequences(value, wanted, tolerance)
    if isinstance(value, _ARRAYS) and isinstance(wanted, _ARRAYS):
        if "O" not in (value.dtype.kind, wanted.dtype.kind):
            return _compare_numbers(np.asarray(value), np.asarray(wanted), tolerance)
        if value.shape != wanted.shape:
            return _differ(f"shapes {value.shape} and {wanted.shape}")
    return _SAME if np.array_equal(value, wanted) else _differ("texts or kinds of values differ")


def _compare_sequences(
    values: Sequence[Any], wanted: Sequence[Any], tolerance: Tolerance
) -> Comparison:
    """The worst element stands for the sequence."""
    if len(values) != len(wanted):
        return _differ(f"sequences of {len(values)} and {len(wanted)}")
    each = [compare_values(a, b, tolerance) for a, b in zip(values, wanted, strict=True)]
    for comparison in each:
        if not comparison:
            return comparison
    return max(each, key=lambda c: (not c.identical, c.max_abs), default=_SAME)


def _compare_numbers(value: Array, wanted: Array, tolerance: Tolerance) -> Comparison:
    limit = tolerance.find_limit(wanted)
    is_across = (
        isinstance(tolerance, DtypeTolerance)
        and is_floating(value.dtype)
        and is_floating(wanted.dtype)
    )
    if not is_across or value.dtype == wanted.dtype:
        # Integers are not rounded: a label may be as large as a million, and its neighbour is another.
        rtol = tolerance.rtol if is_floating(wanted.dtype) else 0.0
        return compare_arrays(value, wanted, atol=limit, rtol=rtol)
    wide = np.result_type(widen(value), widen(wanted))
    comparison = compare_arrays(
        value.astype(wide), wanted.astype(wide), atol=limit, rtol=tolerance.rtol
    )
    # Equal numbers of different dtypes differ in bits.
    return msgspec.structs.replace(comparison, identical=False)


def _differ(reason: str) -> Comparison:
    return Comparison(False, False, _APART, _APART, reason)


def find_share(comparison: Comparison, wanted: Any) -> float | None:
    """Return the distance relative to ``wanted``'s largest number, or None if unknown."""
    if not isinstance(wanted, _ARRAYS) or comparison.max_abs == _APART:
        return None
    if not comparison.max_abs:
        return 0.0
    largest = find_largest(np.asarray(wanted)) or 1.0
    return comparison.max_abs / largest


def find_largest(array: Array) -> float:
    """Return the largest finite magnitude; 0 if the array is empty or not numeric."""
    array = widen(array)
    if array.dtype.kind not in "fiub" or not array.size:
        return 0.0
    is_float = array.dtype.kind == "f"
    # The least integer's magnitude overflows in its own dtype.
    finite = array[np.isfinite(array)] if is_float else array.astype(np.float64)
    return float(np.abs(finite).max()) if finite.size else 0.0


def describe_value(value: Any) -> tuple[tuple[int, ...], str]:
    """Return a value's shape and dtype, or a sequence's length."""
    if isinstance(value, _ARRAYS):
        return tuple(value.shape), name_dtype(value.dtype)
    if isinstance(value, list):
        return (len(value),), "sequence"
    return (), type(value).__name__
