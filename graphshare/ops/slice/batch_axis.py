"""Batch-axis rules of the operators of family ``slice``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use, mixing_rule


def _slice_axis(use: Use) -> Outcome:
    return "takes a part of the samples" if use.first.is_axis(use.value("axis")) else use.first


def _slice_part(use: Use) -> Outcome:
    for key, whole in (("begin", (None, 0)), ("end", (None,)), ("step", (None, 1))):
        given = tuple(use.value(key) or ())
        if use.first.axis < len(given) and given[use.first.axis] not in whole:
            return "takes a part of the samples"
    return use.first


def _slice_like(use: Use) -> Outcome:
    data, like, axes = use.input(0), use.input(1), tuple(use.value("axes") or ())
    if data is None:
        return (
            "cuts a constant to the size of the batch"
            if like is not None and (not axes or any(map(like.is_axis, axes)))
            else None
        )
    if not axes or any(map(data.is_axis, axes)):
        return data if like is not None and like.axis == data.axis else "takes a part of the samples"
    return data


RULES: dict[str, Rule] = {
    "_slice_assign": mixing_rule("moves the samples"),
    "_slice_assign_scalar": mixing_rule("moves the samples"),
    "slice_axis": _slice_axis,
    "slice": _slice_part,
    "slice_like": _slice_like,
}
