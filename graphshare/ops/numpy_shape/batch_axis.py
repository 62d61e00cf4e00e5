"""Batch-axis rules of the operators of family ``numpy_shape``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, mixing_rule

RULES: dict[str, Rule] = {
    "diag": mixing_rule("moves the samples"),
}
