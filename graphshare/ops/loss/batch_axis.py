"""Batch-axis rules of the operators of family ``loss``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Mixes, Outcome, Rule, Use, default_rule, require_axes


def _loss(use: Use) -> Outcome:
    how = use.value("normalization")
    outcome = default_rule(use)
    if how in ("batch", "valid"):
        counted = "all samples" if how == "batch" else "what is valid in all samples"
        place = outcome if isinstance(outcome, At) else At(0)
        why = f"divides its gradient by the number of {counted} (normalization {how})"
        return Mixes(why, [place], only_training=isinstance(outcome, At))
    return outcome


RULES: dict[str, Rule] = {
    "SoftmaxOutput": _loss,
    "MakeLoss": _loss,
    "CTCLoss": require_axes(1, 0, 0, 0, out=At(0)),
}
