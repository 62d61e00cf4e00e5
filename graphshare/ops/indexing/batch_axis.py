"""Batch-axis rules of the operators of family ``indexing``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use


def one_hot(use: Use) -> Outcome:
    """Append an axis."""
    return use.first.with_axis(use.first.axis, 1)


def _embedding(use: Use) -> Outcome:
    return "has a weight that depends on the batch" if use.input(1) is not None else one_hot(use)


def _take(use: Use) -> Outcome:
    data, indices, axis = use.input(0), use.input(1), use.value("axis")
    if data is None and indices is not None:
        return At(indices.axis + axis) if axis >= 0 else "takes along an axis whose position is not known"
    if data is None or data.is_axis(axis) or indices is not None or 0 <= axis < data.axis:
        return "selects elements along the batch axis"
    return At(data.axis)


def _pick(use: Use) -> Outcome:
    axis, at = use.value("axis"), use.first
    if axis is None or at.is_axis(axis) or use.axes_differ:
        return "selects elements along the batch axis"
    return at if use.value("keepdims") else at.with_axis(at.axis - (0 <= axis < at.axis), -1)


RULES: dict[str, Rule] = {
    "Embedding": _embedding,
    "take": _take,
    "pick": _pick,
    "one_hot": one_hot,
}
