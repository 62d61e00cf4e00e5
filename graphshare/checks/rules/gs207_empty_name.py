"""GS207: a node without a name."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="warning",
    summary="A node has an empty name",
    why=(
        "A variable without a name cannot be fed or found in a parameter file; an operator's "
        "output is just called 'output'."
    ),
    fails=dense().replace('"name": "fc"', '"name": ""'),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield nameless nodes."""
    for node in context.graph.nodes:
        if not node.name:
            subject = "a variable" if node.is_variable else f"an operator ({node.op})"
            yield Violation(
                f"{subject} has no name", node=node, hint="give it one (graphshare rename)"
            )
