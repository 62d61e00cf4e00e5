"""GS108: ``arg_nodes`` that does not list the variables."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense
from graphshare.ir.graph import VARIABLE_OP
from graphshare.text.format import format_count


@check_rule(
    level="warning",
    summary="arg_nodes does not list the variables in order",
    why="MXNet does not use the list; other tools take the arguments from it.",
    fails=dense().replace('"arg_nodes": [0, 1, 2]', '"arg_nodes": [0, 2]'),
    passes=dense(),
    fix="writes the list that follows from the nodes",
)
def find(context: CheckContext) -> Violations:
    """Yield lists that disagree with the nodes."""
    # Other ids are GS101 and GS107
    if not context.has_graph:
        return
    hint = "it lists the ids of all variables (op null) in order"
    for steps, graph in context.documents:
        variables = [i for i, node in enumerate(graph["nodes"]) if node["op"] == VARIABLE_OP]
        listed = graph["arg_nodes"]
        if listed == variables:
            continue
        missing = sorted(set(variables) - set(listed))
        extra = len(listed) - len(set(listed))
        problem = "is not in the order of the nodes"
        if missing:
            count = format_count(len(variables), "variable")
            problem = f"leaves out {len(missing)} of {count}, node {missing[0]} first"
        elif extra:
            problem = f"lists {extra} ids twice"
        yield Violation(f"arg_nodes {problem}", (*steps, "arg_nodes"), hint=hint)
