"""GS804: a parameter that one operator of a Paddle program writes and another one also reads."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    parameter,
    program,
    step,
)
from graphshare.ir.graph import Node

_READ = step("1.relu", "1", 2)


@check_rule(
    level="warning",
    summary="An operator writes into a parameter that another operator shares",
    why=(
        "The other one gets the old or the new value, by the order of the run, and the next run "
        "starts from the new one."
    ),
    fails=program(parameter("w", 1), _READ, step("1.increment_", "1", 3)),
    passes=program(parameter("w", 1), parameter("n", 4), _READ, step("1.increment_", "4", 3)),
)
def find(context: CheckContext) -> Violations:
    """Yield each such writer, with the other user."""
    # Start-up
    from graphshare.checks.paddle_facts import find_place, list_uses
    from graphshare.formats.paddle.records import is_written  # start-up

    users: dict[Node, list[tuple[Node, int]]] = {}
    for owner, user, place in list_uses(context.graph):
        users.setdefault(owner, []).append((user, place))
    for owner, uses in users.items():
        for user, place in uses:
            others = [other for other, _ in uses if other is not user]
            if others and is_written(user, place):
                message = f"{user.op} writes into {owner.name!r}, which {others[0].op} shares"
                hint = "give it a copy: `graphshare share --untie`; or save the module in evaluation mode"
                yield Violation(message, find_place(context.graph, user), owner, hint=hint)
