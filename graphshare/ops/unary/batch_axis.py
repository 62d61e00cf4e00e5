"""Batch-axis rules of the operators of family ``unary``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, mixing_rule

RULES: dict[str, Rule] = {
    "shape_array": mixing_rule("tells how large the batch is"),
    "size_array": mixing_rule("tells how large the batch is"),
}
