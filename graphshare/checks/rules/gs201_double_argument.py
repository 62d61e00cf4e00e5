"""GS201: one name for two arguments."""

from graphshare.checks.graph_facts import find_repeats
from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)


@check_rule(
    level="error",
    summary="Two arguments have the same name",
    why=(
        "Equal names are not sharing: MXNet's Module refuses the graph (Duplicate names "
        "detected), elsewhere a gradient "
        "silently stays 0, and a parameter file can contain only one of them."
    ),
    fails=symbol(variable("x"), variable("x"), operator("elemwise_add", "sum", 0, 1)),
    passes=symbol(variable("x"), operator("elemwise_add", "sum", 0, 0)),
)
def find(context: CheckContext) -> Violations:
    """Yield repetitions."""
    arguments = [(v.name, owner) for v, owner in context.variables if not v.auxiliary]
    for name, first, later in find_repeats(arguments):
        message = (
            f"the argument {name!r} has the name of an earlier one (node {context.ids[first]})"
        )
        hint = (
            "`graphshare share --doctor tie` merges variables of one name into one node, --doctor "
            "separate renames them"
        )
        yield Violation(message, node=later, hint=hint)
