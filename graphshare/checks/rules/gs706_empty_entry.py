"""GS706: a weight without elements."""

from graphshare.checks.rule import CheckContext, Violations, check_rule, checkpoint
from graphshare.checks.shard_facts import list_faults


@check_rule(
    level="error",
    summary="A weight of a checkpoint is an empty entry",
    why=(
        "A loader ends with an error, or takes it for the weight; tools write it for an array "
        "that another process owned."
    ),
    fails=checkpoint({"model.safetensors": "lm_head.weight:0 x"}, tie_word_embeddings=True),
    passes=checkpoint({"model.safetensors": "lm_head.weight x"}, tie_word_embeddings=True),
)
def find(context: CheckContext) -> Violations:
    """Yield empty entries."""
    yield from list_faults(context, "empty")
