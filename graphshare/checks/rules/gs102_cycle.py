"""GS102: nodes in a cycle."""

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
    level="error",
    summary="Nodes form a cycle",
    why="MXNet loads such a file without complaint and computes nonsense.",
    fails=symbol(variable("data"), operator("elemwise_add", "a", 0, 2), operator("relu", "b", 1)),
    passes=symbol(variable("data"), operator("elemwise_add", "a", 0, 0), operator("relu", "b", 1)),
)
def find(context: CheckContext) -> Violations:
    """Yield one cycle of each graph, as a path."""
    for fault in context.reading.cycles:
        yield Violation.of_fault(fault)
