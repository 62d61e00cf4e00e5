"""Batch-axis rules of the operators of family ``activation``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use, default_rule


def _leaky_relu(use: Use) -> Outcome:
    return use.first if use.value("act_type") != "prelu" else default_rule(use)


RULES: dict[str, Rule] = {
    "LeakyReLU": _leaky_relu,
}
