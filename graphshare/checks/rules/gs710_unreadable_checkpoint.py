"""GS710: an unreadable file of a checkpoint."""

from graphshare.checks.rule import CheckContext, Violations, check_rule, checkpoint
from graphshare.checks.shard_facts import list_faults


@check_rule(
    level="error",
    summary="A file of a checkpoint is missing, damaged, or not a file of its folder",
    why="The checkpoint cannot be loaded.",
    fails=checkpoint({"a.safetensors": "x"}, index={"x": "a.safetensors", "y": "../b.safetensors"}),
    passes=checkpoint({"a.safetensors": "x"}, index={"x": "a.safetensors"}),
)
def find(context: CheckContext) -> Violations:
    """Yield faults of headers, the index and the configuration."""
    yield from list_faults(context, "unreadable")
