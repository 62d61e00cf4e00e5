"""Batch-axis rules of the operators of family ``creation``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use


def _arange_like(use: Use) -> Outcome:
    axis = use.value("axis")
    return "counts along the batch axis" if axis is None or use.first.is_axis(axis) else None


RULES: dict[str, Rule] = {
    "_contrib_arange_like": _arange_like,
}
