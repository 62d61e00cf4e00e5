"""GS702: tied weights with different values."""

from graphshare.checks.rule import CheckContext, Violations, check_rule, checkpoint
from graphshare.checks.shard_facts import list_ties, report_tie


@check_rule(
    level="error",
    summary="Tied weights of a checkpoint have different values",
    why=(
        "The configuration ties them: a loader takes one of the two and drops the other, or does "
        "not tie them, by its version."
    ),
    fails=checkpoint(
        {"model.safetensors": "lm_head.weight! model.embed_tokens.weight"}, tie_word_embeddings=True
    ),
    passes=checkpoint(
        {"model.safetensors": "lm_head.weight! model.embed_tokens.weight"},
        tie_word_embeddings=False,
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield tied arrays that differ from their twins."""
    for tie in list_ties(context, True, "values"):
        message = (
            f"differs from {tie.pair.kept} at byte {tie.at:,} of the array, and {tie.statement}"
        )
        yield report_tie(
            context,
            tie,
            message,
            hint="set tie_word_embeddings to false, or leave out the array that was not trained",
        )
