"""Batch-axis rules of the operators of family ``concat``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use
from graphshare.ops.reshape.batch_axis import expand_dims


def concat(use: Use) -> Outcome:
    """Keep the samples, unless arrays are joined along them."""
    if use.axes_differ:
        return "has the samples on different axes of its inputs"
    return "joins arrays along the samples" if use.first.is_axis(use.value("dim")) else use.first


def _stack(use: Use) -> Outcome:
    return expand_dims(use) if not use.axes_differ else "has the samples on different axes of its inputs"


def _split(use: Use) -> Outcome:
    axis, at = use.value("axis"), use.first
    if at.is_axis(axis):
        return "takes the samples apart"
    return at.with_axis(at.axis - (0 <= axis < at.axis), -1) if use.value("squeeze_axis") else at


RULES: dict[str, Rule] = {
    "Concat": concat,
    "stack": _stack,
    "SliceChannel": _split,
    "_split_v2": _split,
}
