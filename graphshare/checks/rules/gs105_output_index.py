"""GS105: an output that its node does not have."""

from graphshare.checks.graph_facts import find_missing_outputs
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense
from graphshare.text.format import format_count


@check_rule(
    level="error",
    summary="An input or a head takes an output that its node does not have",
    why="MXNet does not check the index while loading; later calls read memory outside the array.",
    fails=dense().replace('"heads": [[3, 0, 0]]', '"heads": [[3, 1, 0]]'),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield the inputs and heads that take it."""
    for steps, consumer, entry, count in find_missing_outputs(context):
        source = f"{entry.node.name!r} ({entry.node.operator_text})"
        message = (
            f"takes output {entry.index} of {source}, which has {format_count(count, 'output')}"
        )
        yield Violation(message, steps, consumer, hint="outputs count from 0")
