"""GS304: an unreadable attribute."""

from graphshare.checks.graph_facts import find_attribute_faults
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="error",
    summary="The operator cannot read the value of an attribute",
    why="MXNet refuses the file: Invalid Parameter format.",
    fails=dense().replace('"num_hidden": "2"', '"num_hidden": "2.0"'),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield unreadable and contradictory attributes."""
    for steps, node, fault in find_attribute_faults(context, "unreadable", "constraint"):
        yield Violation(fault.message, steps, node)
