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
    for steps, graph in context.documents if context.has_graph else ():
        variables = [i for i, node in enumerate(graph["nodes"]) if node["op"] == VARIABLE_OP]
        listed = graph["arg_nodes"]
        if listed != variables:
            missing, extra = sorted(set(variables) - set(listed)), len(listed) - len(set(listed))
            problem = (
                f"leaves out {len(missing)} of {format_count(len(variables), 'variable')}, node {missing[0]} first"
                if missing
                else f"lists {extra} ids twice"
                if extra
                else "is not in the order of the nodes"
            )
            yield Violation(
                f"arg_nodes {problem}",
                (*steps, "arg_nodes"),
                hint="it lists the ids of all variables (op null) in order",
            )
