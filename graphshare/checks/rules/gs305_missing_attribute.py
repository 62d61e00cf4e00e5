"""GS305: a missing attribute."""

from graphshare.checks.graph_facts import find_attribute_faults, find_reshapes_without_shape
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="error",
    summary="An operator lacks an attribute that it requires",
    why="MXNet refuses the file: Required parameter ... is not presented.",
    fails=dense().replace('"num_hidden"', '"__num_hidden__"'),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield required attributes that are missing."""
    for steps, node, fault in find_attribute_faults(context, "missing"):
        yield Violation(fault.message, steps, node)
    for steps, node in find_reshapes_without_shape(context):
        yield Violation("missing attribute 'shape': the new shape is not stated", steps, node)
