"""GS704: an index that does not fit the shards."""

from graphshare.checks.rule import CheckContext, Violations, check_rule, checkpoint
from graphshare.checks.shard_facts import list_faults


@check_rule(
    level="error",
    summary="The index of a checkpoint names a shard that does not have the tensor",
    why="A loader ends with an error, or leaves the tensor as it was initialized.",
    fails=checkpoint(
        {"a.safetensors": "x", "b.safetensors": "y"},
        index={"x": "b.safetensors", "y": "b.safetensors"},
    ),
    passes=checkpoint(
        {"a.safetensors": "x", "b.safetensors": "y"},
        index={"x": "a.safetensors", "y": "b.safetensors"},
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield tensors that are elsewhere, or nowhere."""
    yield from list_faults(context, "index")
