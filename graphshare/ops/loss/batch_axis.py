"""Batch-axis rules of the operators of family ``loss``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use, default_rule, require_axes


def _loss(use: Use) -> Outcome:
    how = use.value("normalization")
    if how in ("batch", "valid"):
        counted = "all samples" if how == "batch" else "what is valid in all samples"
        return f"divides its gradient by the number of {counted} (normalization {how})"
    return default_rule(use)


RULES: dict[str, Rule] = {
    "SoftmaxOutput": _loss,
    "MakeLoss": _loss,
    "CTCLoss": require_axes(1, 0, 0, 0, out=At(0)),
}
