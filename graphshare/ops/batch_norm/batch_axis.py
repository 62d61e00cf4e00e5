"""Batch-axis rules of the operators of family ``batch_norm``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Mixes, Outcome, Rule, Use


def _batch_norm(use: Use) -> Outcome:
    if any(use.input(slot) is not None for slot in range(1, len(use.inputs))):
        return "has a weight that depends on the batch"
    if use.signature.parameter("axis") is not None and use.first.is_axis(use.value("axis")):
        return "normalises each sample by parameters of its own"
    places = [use.first, None, None]  # mean and variance have no batch axis
    why = "takes mean and variance of the whole batch while training"
    return places if use.value("use_global_stats") else Mixes(why, places, only_training=True)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU"), _batch_norm),
}
