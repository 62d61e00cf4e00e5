"""GS206: two parameter nodes that should be one."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)
from graphshare.ir.graph import Node

_ATTRS = {"num_hidden": "2", "no_bias": "True"}


@check_rule(
    level="warning",
    summary="Two parameters with the same name feed the same input of two operators of one kind",
    why="They were probably meant to be shared, but sharing takes one node: these train separately, or not at all.",
    fails=symbol(
        variable("data"),
        variable("w_weight"),
        operator("FullyConnected", "a", 0, 1, **_ATTRS),
        variable("w_weight"),
        operator("FullyConnected", "b", 2, 3, **_ATTRS),
    ),
    passes=symbol(
        variable("data"),
        variable("w_weight"),
        operator("FullyConnected", "a", 0, 1, **_ATTRS),
        operator("FullyConnected", "b", 2, 1, **_ATTRS),
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield parameters with the name and use of an earlier one: the same input of the same kind of
    operator.
    """
    first: dict[tuple[str, str], Node] = {}
    for node, role in context.parameters:
        if not node.name or role.user is None:
            continue
        # GS201 reports equal names at different inputs.
        original = first.setdefault((node.name, role.why + role.user.op), node)
        if original is not node:
            message = f"{node.name!r} and node {context.ids[original]} are two parameters with the same name and use"
            hint = "`graphshare share GRAPH --doctor tie` merges them into one node, --doctor separate renames them"
            yield Violation(message, node=node, hint=hint)
