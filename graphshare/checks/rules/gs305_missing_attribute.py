"""GS305: a required attribute is missing."""

from graphshare.checks.examples import dense
from graphshare.checks.graph_facts import find_attribute_faults, find_reshapes_without_shape
from graphshare.checks.rule import CheckContext, Example, Level, Violation, Violations, check_rule


@check_rule(
    level=Level.ERROR,
    summary="An operator lacks an attribute that it requires",
    why="MXNet refuses the file: Required parameter ... is not presented.",
    fails=Example(dense().replace('"num_hidden"', '"__num_hidden__"')),
    passes=Example(dense()),
)
def find(context: CheckContext) -> Violations:
    """Yield each missing attribute."""
    for steps, node, fault in find_attribute_faults(context, "missing"):
        yield Violation(fault.message, steps, node)
    for steps, node in find_reshapes_without_shape(context):
        yield Violation("missing attribute 'shape': nothing tells what to reshape to", steps, node)
