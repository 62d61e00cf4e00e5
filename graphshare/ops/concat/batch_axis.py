"""Batch-axis rules of the operators of family ``concat``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use
from graphshare.ops.reshape.batch_axis import expand_dims


def concat(use: Use) -> Outcome:
    """Keep the batch axis, unless arrays are concatenated along it."""
    if use.axes_differ:
        return "has different batch axes in its inputs"
    return "concatenates arrays along the batch axis" if use.first.is_axis(use.value("dim")) else use.first


def _stack(use: Use) -> Outcome:
    return expand_dims(use) if not use.axes_differ else "has different batch axes in its inputs"


def _split(use: Use) -> Outcome:
    axis, at = use.value("axis"), use.first
    if at.is_axis(axis):
        return "splits the batch axis"
    return at.with_axis(at.axis - (0 <= axis < at.axis), -1) if use.value("squeeze_axis") else at


RULES: dict[str, Rule] = {
    "Concat": concat,
    "stack": _stack,
    "SliceChannel": _split,
    "_split_v2": _split,
}
