"""GS110: a graph without outputs."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="warning",
    summary="The graph has no outputs",
    why="MXNet loads it into a symbol that computes nothing.",
    fails=dense().replace("[[3, 0, 0]]", "[]"),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield the empty list."""
    if context.has_graph and not context.graph.heads:
        yield Violation(
            "has no outputs", ("heads",), hint="list the output entries, as [[id, 0, 0]]"
        )
