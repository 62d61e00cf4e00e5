"""GS707: a tensor that the index does not list."""

from graphshare.checks.rule import CheckContext, Violations, check_rule, checkpoint
from graphshare.checks.shard_facts import list_faults


@check_rule(
    level="warning",
    summary="A tensor of a shard is not in the index",
    why="Loaders that follow the index do not find it, others do.",
    fails=checkpoint({"a.safetensors": "x y"}, index={"x": "a.safetensors"}),
    passes=checkpoint({"a.safetensors": "x y"}, index={"x": "a.safetensors", "y": "a.safetensors"}),
)
def find(context: CheckContext) -> Violations:
    """Yield such tensors."""
    yield from list_faults(context, "unlisted")
