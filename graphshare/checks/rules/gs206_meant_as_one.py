"""GS206: two parameter nodes that should be one."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.ir.graph import Node
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each parameter that has the name and the use of an earlier one: the same input of an operator of the same kind."""
    if not context.has_graph:
        return
    first: dict[tuple[str, str], Node] = {}
    for node in context.reachable:
        role = context.roles.get(node)
        if role is None or not role.is_parameter or not node.name or role.user is None:
            continue
        original = first.setdefault((node.name, role.why + role.user.op), node)
        if original is not node:
            message = f"{node.name!r} and node {context.ids[original]} are two parameters with the same name and use"
            hint = "graphshare share GRAPH --doctor tie merges them into one node, --doctor separate renames them"
            yield Violation(message, context.node_steps(node), node, hint=hint)


_ATTRS = {"num_hidden": "2", "no_bias": "True"}

RULE = CheckRule(
    code="GS206",
    name="meant-as-one",
    level=Level.WARNING,
    summary="Two parameters with the same name feed the same input of two operators of one kind",
    why="They were probably meant to be shared, but sharing takes one node: these train separately, or not at all.",
    find=find,
    fails=Example(
        symbol(
            variable("data"),
            variable("w_weight"),
            operator("FullyConnected", "a", 0, 1, **_ATTRS),
            variable("w_weight"),
            operator("FullyConnected", "b", 2, 3, **_ATTRS),
        )
    ),
    passes=Example(
        symbol(
            variable("data"),
            variable("w_weight"),
            operator("FullyConnected", "a", 0, 1, **_ATTRS),
            operator("FullyConnected", "b", 2, 1, **_ATTRS),
        )
    ),
)
