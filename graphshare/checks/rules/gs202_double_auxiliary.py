"""GS202: one name for two auxiliary states."""

from graphshare.checks.graph_facts import find_repeats
from graphshare.checks.rule import CheckContext, Violation, Violations, batch_norm, check_rule


@check_rule(
    level="error",
    summary="Two auxiliary states have the same name",
    why="MXNet's Module refuses the graph: Duplicate names detected.",
    fails=batch_norm(mean="bn_moving", var="bn_moving"),
    passes=batch_norm(),
)
def find(context: CheckContext) -> Violations:
    """Yield repetitions."""
    for name, first, later in find_repeats(
        [(v.name, owner) for v, owner in context.variables if v.auxiliary]
    ):
        message = f"the auxiliary state {name!r} has the name of an earlier one (node {context.ids[first]})"
        hint = (
            "`graphshare share --doctor tie` merges variables of one name into one node, --doctor "
            "separate renames them"
        )
        yield Violation(message, node=later, hint=hint)
