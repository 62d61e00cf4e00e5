"""Signatures of ``broadcast``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use
from graphshare.ops.signature import define

OPERATORS = (
    *define(
        "broadcast_axis(broadcast_axes)",
        "data",
        "axis:shape=[]; size:shape=[]",
        registers_inputs=False,
        couples_batch="axis",
    ),
    *define(
        "broadcast_like",
        "lhs rhs",
        "lhs_axes:shape?=None; rhs_axes:shape?=None",
        couples_batch="shape",
    ),
    *define(
        "broadcast_to", "data", "shape:shape=[]", registers_inputs=False, couples_batch="shape"
    ),
    *define(
        "Pad(pad)",
        "data",
        "mode:{constant/edge/reflect}=!; pad_width:shape=!; constant_value:double=0",
        couples_batch="never",
        is_operator_property=True,
    ),
    *define("repeat(_np_repeat)", "data", "repeats:int=!; axis:int?=None", couples_batch="axis"),
    *define("tile(_npi_tile)", "data", "reps:tuple32=!", couples_batch="shape"),
)


def _repeat(use: Use) -> Outcome:
    return "flattens the batch axis" if use.value("axis") is None else use.first


def _broadcast_axis(use: Use) -> Outcome:
    if any(map(use.first.is_axis, use.value("axis") or ())):
        return "broadcasts along the batch axis"
    return use.first


def _broadcast_like(use: Use) -> Outcome:
    lhs, rhs, axes = use.input(0), use.input(1), use.value("lhs_axes")
    if axes is None:
        return "has the samples on different axes of its inputs" if use.axes_differ else use.first
    if lhs is None and rhs is None:
        return None
    if lhs is None or any(map(lhs.is_axis, axes)):
        return "broadcasts along the batch axis"
    return lhs


def _broadcast_to(use: Use) -> Outcome:
    shape, at = tuple(use.value("shape") or ()), use.first
    # 0 keeps the axis; a number would fix the batch size.
    if at.axis < len(shape) and shape[at.axis] == 0:
        return At(at.axis, len(shape))
    return "has an attribute for the size of the batch axis"


def _tile(use: Use) -> Outcome:
    reps, at = tuple(use.value("reps") or ()), use.first
    # Repeats are aligned at the last axis, so without a rank their axes are unknown. For samples on
    # axis 0 this assumes no more repeats than axes.
    if at.rank is None and at.axis and set(reps) - {1}:
        return "repeats along axes whose position is not known"
    rank = len(reps) if at.rank is None else at.rank
    more = max(0, len(reps) - rank)  # axes that it puts in front
    # The batch axis's member of reps.
    place = at.axis + len(reps) - rank
    if 0 <= place < len(reps) and reps[place] != 1:
        return "repeats along the batch axis"
    return at.with_axis(at.axis + more, more)


RULES: dict[str, Rule] = {
    "repeat": _repeat,
    "broadcast_axis": _broadcast_axis,
    "broadcast_like": _broadcast_like,
    "broadcast_to": _broadcast_to,
    "tile": _tile,
}
