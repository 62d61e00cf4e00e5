"""GS104: nodes that no output needs."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)
from graphshare.ir.walk import reachable


@check_rule(
    level="warning",
    summary="No output needs a node",
    why="No list of MXNet contains it and MXNet drops it when it writes the file; often an id is wrong.",
    fails=symbol(variable("data"), operator("relu", "a", 0), operator("relu", "b", 0)),
    passes=symbol(variable("data"), operator("relu", "a", 0), operator("relu", "b", 1)),
    fix="drops it, as MXNet does",
)
def find(context: CheckContext) -> Violations:
    """Yield nodes that no head needs."""
    for steps, graph in context.graphs:
        needed = set(reachable(graph) if steps else context.reachable)
        for i, node in enumerate(graph.nodes):
            if node not in needed:
                hint = "add it to the heads, or remove it (graphshare extract)"
                message = f"no output needs {node.name!r} ({node.operator_text})"
                yield Violation(message, (*steps, "nodes", i), node, hint=hint)
