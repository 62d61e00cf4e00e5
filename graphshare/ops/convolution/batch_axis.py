"""Batch-axis rules of the operators of family ``convolution``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, window_rule

RULES: dict[str, Rule] = {
    "Convolution": window_rule,
}
