"""GS705: a tensor in two shards."""

from graphshare.checks.rule import CheckContext, Violations, check_rule, checkpoint
from graphshare.checks.shard_facts import list_faults


@check_rule(
    level="error",
    summary="A tensor of a checkpoint is in two shards",
    why="Loaders take the one that the index names, or the last that they read, and the two may differ.",
    fails=checkpoint(
        {"a.safetensors": "x y", "b.safetensors": "y"},
        index={"x": "a.safetensors", "y": "b.safetensors"},
    ),
    passes=checkpoint(
        {"a.safetensors": "x", "b.safetensors": "y"},
        index={"x": "a.safetensors", "y": "b.safetensors"},
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield such tensors, at their second places."""
    yield from list_faults(context, "twice")
