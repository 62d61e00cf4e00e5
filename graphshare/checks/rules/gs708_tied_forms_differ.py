"""GS708: tied weights of different dtypes or sizes."""

from graphshare.checks.rule import CheckContext, Violations, check_rule, checkpoint
from graphshare.checks.shard_facts import list_ties, report_tie
from graphshare.text.format import format_dims


@check_rule(
    level="error",
    summary="Tied weights of a checkpoint differ in dtype or shape",
    why="They cannot be one array: one of them was padded, resized or converted after they were tied.",
    fails=checkpoint(
        {"model.safetensors": "lm_head.weight:4 model.embed_tokens.weight"},
        tie_word_embeddings=True,
    ),
    passes=checkpoint(
        {"model.safetensors": "lm_head.weight:4 model.embed_tokens.weight:4"},
        tie_word_embeddings=True,
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield tied arrays unlike their twins."""
    for tie in list_ties(context, True, "form"):
        forms = [
            f"{part[1].dtype} {format_dims(part[1].shape)}"
            for part in (tie.pair.first, tie.pair.second)
            if part
        ]
        message = f"is {forms[0]} and {tie.pair.kept} is {forms[-1]}, and {tie.statement}"
        yield report_tie(
            context, tie, message, hint="give both the size of the vocabulary, and one dtype"
        )
