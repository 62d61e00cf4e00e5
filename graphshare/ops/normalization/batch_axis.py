"""Batch-axis rules of the operators of family ``normalization``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, along_axis_rule, mixing_rule

RULES: dict[str, Rule] = {
    "LayerNorm": along_axis_rule,
    "IdentityAttachKLSparseReg": mixing_rule("keeps an average of the whole batch while training"),
}
