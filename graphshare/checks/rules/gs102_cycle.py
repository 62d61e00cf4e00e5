"""GS102: nodes in a cycle."""

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.rule import CheckContext, Example, Level, Violation, Violations, check_rule


@check_rule(
    level=Level.ERROR,
    summary="Nodes form a cycle",
    why="MXNet loads such a file without complaint and computes nonsense.",
    fails=Example(symbol(variable("data"), operator("elemwise_add", "a", 0, 2), operator("relu", "b", 1))),
    passes=Example(symbol(variable("data"), operator("elemwise_add", "a", 0, 0), operator("relu", "b", 1))),
)
def find(context: CheckContext) -> Violations:
    """Yield one cycle of each graph that has cycles, as a path."""
    for fault in context.reading.cycles:
        yield Violation.of_fault(fault)
