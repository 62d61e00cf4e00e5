"""Batch-axis rules of the operators of family ``foreign``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, without_samples

RULES: dict[str, Rule] = {
    "MultiBoxPrior": without_samples,
}
