"""Find names that stand for different values in the two models, by comparing values.

Optimizers give the result of several operators the name of the first; converters number values.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np

from graphshare.errors import GraphshareError, MemoryLimitError
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import Place
from graphshare.ops.kernel import Array
from graphshare.ops.registry import visible_outputs
from graphshare.verification.comparison import Tolerance, Tolerate, compare_values, find_largest
from graphshare.verification.noise import find_operator
from graphshare.verification.other_inputs import MASKS
from graphshare.verification.parts import ModelValues, compute_part, is_array
from graphshare.verification.region_plan import (
    Cone,
    Pair,
    Planner,
    RegionPlan,
    get_place,
)

_NEARER = 10.0
"""How many times nearer than its namesake a value must be to count as the new place of a name."""
_LIKE = 1e-3
"""The largest difference of two compared values' summaries, relative to the largest number."""
_ROUNDED = 10.0
"""The tolerance for values of two whole models, as a multiple of a region's."""


def find_moved(
    planner: Planner,
    plan: RegionPlan,
    draw: Sequence[ModelValues],
    cone: Cone,
    end: Pair,
    values: tuple[Array, Array],
    tolerate: Tolerate,
) -> dict[Place, Entry]:
    """Pair one value of ``end`` with an equal value near the other one, or return nothing.

    ``values`` are the end's, computed from the left model's.
    """
    nearest = float("inf")
    moved: dict[Place, Entry] = {}
    namesake = compare_values(values[1], values[0], tolerate(*values)).max_abs
    for side, wanted in enumerate(reversed(values)):
        entries = planner.list_near(end[side], cone, side)
        try:
            # After a move, the right model may lack the left model's value at that name.
            candidates = _compute_near(
                planner, plan, draw, side, entries, [each[side].node for each in cone.ends]
            )
        except GraphshareError:
            continue
        for entry, value in zip(entries, candidates, strict=True):
            if not is_array(value) or value.shape != wanted.shape:
                continue
            # An array of zeros equals too many others to locate a moved name.
            if value.dtype != wanted.dtype or not np.any(value):
                continue
            comparison = compare_values(value, wanted, tolerate(wanted, value))
            apart = comparison.max_abs
            is_near = bool(comparison) or apart * _NEARER <= namesake
            if is_near and apart < nearest:
                nearest = apart
                moved = {get_place(entry): end[1]} if side == 0 else {get_place(end[0]): entry}
    return moved


def find_equal(
    planner: Planner, draw: Sequence[ModelValues], cones: Sequence[Cone], tolerate: Tolerate
) -> dict[Place, Entry]:
    """Pair equal values inside regions, each left value with the likeliest right one.

    A value that passes a mask unchanged equals the one before it: both must come from masks, or
    neither.
    """
    try:
        left, right = (_compute_inner(planner, draw, cones, side) for side in (0, 1))
    except MemoryLimitError:
        raise
    except GraphshareError:
        return {}
    pairs: dict[Place, Entry] = {}
    for value in left:
        equal = [other for other in right if _is_equal(value, other, tolerate)]
        chosen = min(
            equal, key=lambda each: each.entry.node.op != value.entry.node.op, default=None
        )
        if chosen is not None:
            pairs[get_place(value.entry)] = chosen.entry
            right = [other for other in right if other is not chosen]
    return pairs


class _Value(NamedTuple):
    entry: Entry
    array: Array
    summary: Array


def _list_inner(cones: Sequence[Cone], side: int) -> list[Entry]:
    ends = {get_place(end[side]) for end in chain(*(cone.ends for cone in cones))}
    nodes = dict.fromkeys(chain(*(cone.sides[side] for cone in cones)))
    outputs = chain(*map(visible_outputs, nodes))
    return [entry for entry in outputs if get_place(entry) not in ends]


def _compute_inner(
    planner: Planner, draw: Sequence[ModelValues], cones: Sequence[Cone], side: int
) -> list[_Value]:
    """Omit values that may equal others by chance."""
    entries = _list_inner(cones, side)
    if not entries:
        return []
    arrays = compute_part(planner.sides[side].model, entries, draw[side].inputs)
    inner: list[_Value] = []
    for entry, array in zip(entries, arrays, strict=True):
        if _is_telling(array):
            inner.append(_Value(entry, array, _sum_up(array)))
    return inner


def _is_equal(value: _Value, other: _Value, tolerate: Tolerate) -> bool:
    """Values must be equal up to rounding, and both or neither come from masks."""
    kinds = [(each.array.shape, find_operator(each.entry) in MASKS) for each in (value, other)]
    if kinds[0] != kinds[1]:
        return False
    # Summaries first: comparing all numbers takes long.
    apart = np.abs(other.summary - value.summary)
    if not np.all(apart <= _LIKE * value.summary[0]):
        return False
    tolerance = _loosen(tolerate(value.array, other.array))
    return bool(compare_values(other.array, value.array, tolerance))


def _sum_up(value: Array) -> Array:
    """Return an array's largest number, mean and mean magnitude, all finite."""
    wide = value.astype(np.float64) / value.size
    return np.array([find_largest(value), wide.sum(), np.abs(wide).sum()])


def _is_telling(value: Any) -> bool:
    """Whether a value is an array of finite floats that hardly equals others by chance."""
    if not is_array(value) or value.dtype.kind != "f":
        return False
    if value.size < 2 or not np.isfinite(value).all():
        return False
    return bool(value.min() != value.max())


def _loosen(tolerance: Tolerance) -> Tolerance:
    """Each model has accumulated rounding since its inputs."""
    return msgspec.structs.replace(tolerance, of_largest=_ROUNDED * tolerance.of_largest)


def _compute_near(
    planner: Planner,
    plan: RegionPlan,
    draw: Sequence[ModelValues],
    side: int,
    entries: Sequence[Entry],
    unknown: Collection[Node],
) -> list[Any]:
    """Compute a side's values from kept left values, except at ``unknown`` nodes."""
    known: dict[Place, Any] = dict(draw[side].inputs)
    near = {entry.node for entry in entries}.union(unknown)
    for term, value in draw[0].by_term.items():
        entry, like = plan.entries[side].get(term), draw[side].by_term.get(term)
        if entry is not None and entry.node not in near and is_array(value) and is_array(like):
            known[get_place(entry)] = value.astype(like.dtype, copy=False)  # type: ignore[union-attr]
    return compute_part(planner.sides[side].model, entries, known)
