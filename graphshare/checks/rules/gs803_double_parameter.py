"""GS803: two parameters, inputs or outputs of a Paddle program with one name."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    parameter,
    program,
    step,
)

_ADD = step("1.add", "1 2", 3)


@check_rule(
    level="error",
    summary="Two parameters, inputs or outputs of a Paddle program have one name",
    why="Paddle has them in one scope: it refuses the program, or one takes the value of another.",
    fails=program(parameter("w", 1), parameter("w", 2), _ADD),
    passes=program(parameter("v", 1), parameter("w", 2), _ADD),
)
def find(context: CheckContext) -> Violations:
    """Yield repeated names, at their last places."""
    if context.has_graph:
        # Start-up
        from graphshare.checks.paddle_facts import find_place

        for message, hint, node in context.graph.source.name_faults(context.graph):
            yield Violation(message, find_place(context.graph, node), node, hint=hint)
