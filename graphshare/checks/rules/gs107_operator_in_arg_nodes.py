"""GS107: an operator among ``arg_nodes``."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="error",
    summary="arg_nodes lists an operator",
    why="MXNet checks nothing else of arg_nodes, but refuses a file for this.",
    fails=dense().replace('"arg_nodes": [0, 1, 2]', '"arg_nodes": [0, 1, 3]'),
    passes=dense(),
    fix="writes the list that follows from the nodes",
)
def find(context: CheckContext) -> Violations:
    """Yield the ids of operators."""
    for fault in context.reading.operator_arguments:
        yield Violation.of_fault(fault)
