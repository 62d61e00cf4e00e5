"""Names that stand for other values in the other model, found by the values themselves.

Optimizers give the result of several operators the name of the first, and converters number their values.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from graphshare.errors import GraphshareError
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import Place
from graphshare.ops.kernel import Array
from graphshare.verification.comparison import Tolerate, compare_values
from graphshare.verification.parts import ModelValues, compute_part, is_array
from graphshare.verification.region_plan import Cone, Pair, Planner, RegionPlan, get_place

_NEARER = 10.0
"""How many times nearer than its namesake a value must be to be the one that a name has moved to."""


def find_moved(
    planner: Planner,
    plan: RegionPlan,
    draw: Sequence[ModelValues],
    cone: Cone,
    end: Pair,
    values: tuple[Array, Array],
    tolerate: Tolerate,
) -> dict[Place, Entry]:
    """Return the pair of which one value is near a namesake, and equal to the other one; nothing where there is none.

    ``values`` are those of an end of a region on a set of inputs, from the values of the left model.
    """
    best: tuple[float, dict[Place, Entry]] = (float("inf"), {})
    namesake = compare_values(values[1], values[0], tolerate(*values)).max_abs
    for side, wanted in enumerate(reversed(values)):
        entries = planner.list_near(end[side], cone, side)
        try:
            # The value of a name that may have moved is that of the left model, which the right one need not have.
            candidates = _compute_near(planner, plan, draw, side, entries, [each[side].node for each in cone.ends])
        except GraphshareError:
            continue
        for entry, value in zip(entries, candidates, strict=True):
            is_like = is_array(value) and value.shape == wanted.shape and value.dtype == wanted.dtype
            # An array of zeros equals too many others to show where a name has moved.
            if not is_like or not np.any(value):
                continue
            comparison = compare_values(value, wanted, tolerate(wanted, value))
            apart = comparison.max_abs if comparison or comparison.max_abs * _NEARER <= namesake else float("inf")
            if apart < best[0]:
                best = apart, {get_place(entry): end[1]} if side == 0 else {get_place(end[0]): entry}
    return best[1]


def _compute_near(
    planner: Planner,
    plan: RegionPlan,
    draw: Sequence[ModelValues],
    side: int,
    entries: Sequence[Entry],
    unknown: Collection[Node],
) -> list[Any]:
    """Return values of a side on the values of the left model, from those kept of nodes that are not ``unknown``."""
    known: dict[Place, Any] = dict(draw[side].inputs)
    near = {entry.node for entry in entries}.union(unknown)
    for term, value in draw[0].by_term.items():
        entry, like = plan.entries[side].get(term), draw[side].by_term.get(term)
        if entry is not None and entry.node not in near and is_array(value) and is_array(like):
            known[get_place(entry)] = value.astype(like.dtype, copy=False)  # type: ignore[union-attr]
    return compute_part(planner.sides[side].model, entries, known)
