"""GS701: tied weights that are stored twice."""

from graphshare.checks.rule import CheckContext, Violations, check_rule, checkpoint
from graphshare.checks.shard_facts import list_ties, report_tie
from graphshare.text.format import format_bytes


@check_rule(
    level="warning",
    summary="Tied weights of a checkpoint are stored twice",
    why=(
        "The configuration ties them, so that loaders keep one and the other wastes its bytes on "
        "every disk and download."
    ),
    fails=checkpoint(
        {"model.safetensors": "lm_head.weight model.embed_tokens.weight"}, tie_word_embeddings=True
    ),
    passes=checkpoint({"model.safetensors": "model.embed_tokens.weight"}, tie_word_embeddings=True),
)
def find(context: CheckContext) -> Violations:
    """Yield second copies."""
    for tie in list_ties(context, True, "equal"):
        size = format_bytes(tie.pair.first[1].size if tie.pair.first else 0)
        message = f"is a second copy of {tie.pair.kept}, to which {tie.statement} ties it: {size} too many"
        yield report_tie(
            context, tie, message, hint="`graphshare params tie` writes the folder with one copy"
        )
