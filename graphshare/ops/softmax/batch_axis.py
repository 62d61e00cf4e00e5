"""Batch-axis rules of the operators of family ``softmax``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, along_axis_rule

RULES: dict[str, Rule] = {
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), along_axis_rule),
}
