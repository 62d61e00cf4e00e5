"""GS103: an input that comes later in the file."""

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


@check_rule(
    level="warning",
    summary="A node comes before one of its inputs",
    why=(
        "MXNet loads such a file and writes it back in another order, with other ids; tools that "
        "read in one pass fail."
    ),
    fails=symbol(operator("relu", "a", 1), variable("data"), heads=[0]),
    passes=symbol(variable("data"), operator("relu", "a", 0)),
    fix="puts the nodes in order",
)
def find(context: CheckContext) -> Violations:
    """Yield nodes that refer to later ones."""
    for steps, graph in context.graphs:
        seen: set[Node] = set()
        for i, node in enumerate(graph.nodes):
            needed = [*(entry.node for entry in node.inputs), *node.control_deps]
            late = [source for source in needed if source not in seen]
            if late:
                message = f"needs {late[0].name!r}, which comes later in the file"
                hint = "put every node after its inputs"
                yield Violation(message, (*steps, "nodes", i), node, hint=hint)
            seen.add(node)
