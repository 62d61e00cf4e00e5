"""GS107: an operator among ``arg_nodes``."""

from graphshare.checks.examples import dense
from graphshare.checks.rule import CheckContext, Example, Level, Violation, Violations, check_rule


@check_rule(
    level=Level.ERROR,
    summary="arg_nodes lists an operator",
    why="MXNet checks nothing else of arg_nodes, but refuses a file for this.",
    fails=Example(dense().replace('"arg_nodes": [0, 1, 2]', '"arg_nodes": [0, 1, 3]')),
    passes=Example(dense()),
    fix="writes the list that follows from the nodes",
)
def find(context: CheckContext) -> Violations:
    """Yield each id that names an operator."""
    for fault in context.reading.operator_arguments:
        yield Violation.of_fault(fault)
