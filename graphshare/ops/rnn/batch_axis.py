"""Batch-axis rules of the operators of family ``rnn``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use


def _rnn(use: Use) -> Outcome:
    names = use.formals_with_samples()
    for name, at in zip(names, [at for at in use.inputs if at is not None], strict=False):
        if name == "parameters":
            return "has a weight that depends on the batch"
        wanted = 0 if name == "sequence_length" else 1
        if at.axis != wanted:
            return f"takes axis {wanted} of its {name} for the samples, which are on axis {at.axis}"
    return At(1, 3) if "data" in names else "has states that depend on the batch, and data that do not"


RULES: dict[str, Rule] = {
    "RNN": _rnn,
}
