"""Batch-axis rules of the operators of family ``box``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, without_samples

RULES: dict[str, Rule] = {
    "_contrib_MultiBoxPrior": without_samples,
}
