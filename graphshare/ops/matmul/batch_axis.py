"""Batch-axis rules of the operators of family ``matmul``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use


def _fully_connected(use: Use) -> Outcome:
    if any(use.input(slot) is not None for slot in range(1, len(use.inputs))):
        return "has a weight that depends on the batch"
    if use.value("flatten") is False:
        return use.first
    return At(0, 2) if not use.first.axis else f"takes axis 0 for the batch axis, which is axis {use.first.axis}"


def _dot(use: Use) -> Outcome:
    lhs, rhs = use.input(0), use.input(1)
    if lhs is not None and not lhs.axis and rhs is None and not use.value("transpose_a"):
        return At(0)
    return "sums over the batch axis"


RULES: dict[str, Rule] = {
    "FullyConnected": _fully_connected,
    "dot": _dot,
}
