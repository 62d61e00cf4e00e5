"""GS106: a variable that has inputs."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)
from graphshare.text.format import format_count

_WRONG = {**variable("b"), "inputs": [[0, 0, 0]]}


@check_rule(
    level="warning",
    summary="A variable has inputs",
    why="MXNet keeps them and never uses them: an operator became a variable, or an id is wrong.",
    fails=symbol(variable("data"), _WRONG, operator("relu", "a", 1)),
    passes=symbol(variable("data"), operator("relu", "a", 0)),
)
def find(context: CheckContext) -> Violations:
    """Yield such variables."""
    for steps, node in context.nodes():
        if node.is_variable and node.inputs:
            hint = "a variable takes its value from outside; should it be an operator?"
            yield Violation(
                f"is a variable with {format_count(len(node.inputs), 'input')}",
                steps,
                node,
                hint=hint,
            )
