"""GS204: one name for two outputs."""

from graphshare.analysis.name_lists import output_name
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
    level="warning",
    summary="Two outputs have the same name",
    why="executor.output_dict refuses them (Duplicate names), and the name no longer identifies an output.",
    fails=symbol(
        variable("data"), operator("relu", "a", 0), operator("relu", "a", 1), heads=[1, 2]
    ),
    passes=symbol(
        variable("data"), operator("relu", "a", 0), operator("relu", "b", 1), heads=[1, 2]
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield repetitions among the heads."""
    named = [(output_name(entry), (i, entry.node)) for i, entry in enumerate(context.graph.heads)]
    for name, first, (i, node) in find_repeats(named):
        hint = "rename one of the operators" if first[1] is not node else "list the output once"
        yield Violation(
            f"output {i} has the name {name!r} of output {first[0]}", ("heads", i), node, hint=hint
        )
