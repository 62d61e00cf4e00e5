"""GS709: possibly tied arrays without a statement in the configuration."""

from graphshare.checks.rule import CheckContext, Violations, check_rule, checkpoint
from graphshare.checks.shard_facts import list_ties, report_tie


@check_rule(
    level="note",
    summary="The configuration does not say whether weights are tied",
    why="The default is in the code of the model: versions and other programs may take the other one.",
    fails=checkpoint({"model.safetensors": "model.embed_tokens.weight"}, vocab_size=2),
    passes=checkpoint({"model.safetensors": "model.embed_tokens.weight"}, tie_word_embeddings=True),
)
def find(context: CheckContext) -> Violations:
    """Yield pairs that are equal, or lack the output layer."""
    for tie in list_ties(context, None, "equal", "absent"):
        if tie.state == "equal":
            message = f"is equal to {tie.pair.kept}; {tie.statement}"
        elif tie.pair.is_output and tie.pair.first is None:
            message = f"{tie.pair.name} is missing; {tie.statement}"
        else:
            continue
        yield report_tie(context, tie, message, hint="add tie_word_embeddings to config.json")
