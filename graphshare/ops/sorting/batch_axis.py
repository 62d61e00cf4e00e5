"""Batch-axis rules of the operators of family ``sorting``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, along_axis_rule

RULES: dict[str, Rule] = {
    **dict.fromkeys(("sort", "argsort", "topk"), along_axis_rule),
}
