"""GS205: one name for two operators."""

from graphshare.checks.graph_facts import find_repeats
from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)


@check_rule(
    level="note",
    summary="Two operators have the same name",
    why="MXNet runs the graph, and Gluon itself exports such graphs when a block is called twice; "
    "but get_internals()['a_output'] finds two outputs and refuses.",
    fails=symbol(variable("data"), operator("relu", "a", 0), operator("relu", "a", 1)),
    passes=symbol(variable("data"), operator("relu", "a", 0), operator("relu", "b", 1)),
)
def find(context: CheckContext) -> Violations:
    """Yield repetitions."""
    operators = [(node.name, node) for node in context.reachable if not node.is_variable]
    for name, first, later in find_repeats(operators):
        message = f"the operator {name!r} has the name of node {context.ids[first]}"
        yield Violation(message, node=later, hint="rename it if you address outputs by name")
