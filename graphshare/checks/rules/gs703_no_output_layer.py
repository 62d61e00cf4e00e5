"""GS703: no output layer, and no tie that would replace it."""

from graphshare.checks.rule import CheckContext, Violations, check_rule, checkpoint
from graphshare.checks.shard_facts import list_ties, report_tie


@check_rule(
    level="error",
    summary="A checkpoint has no output layer and does not tie it",
    why="A loader initializes the output layer at random, with a warning at most.",
    fails=checkpoint({"model.safetensors": "model.embed_tokens.weight"}, tie_word_embeddings=False),
    passes=checkpoint(
        {"model.safetensors": "lm_head.weight model.embed_tokens.weight"}, tie_word_embeddings=False
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield embeddings whose output layer is missing."""
    for tie in list_ties(context, False, "absent"):
        if tie.pair.is_output and tie.pair.first is None:
            message = f"{tie.pair.name} is missing, and {tie.statement}"
            yield report_tie(
                context,
                tie,
                message,
                hint="set tie_word_embeddings to true, or save the output layer as well",
            )
