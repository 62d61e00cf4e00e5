"""GS504: a suffix after an ending that MXNet recognizes."""

from graphshare.analysis.roles import SUFFIXES
from graphshare.checks.graph_facts import INNER_FORMAL
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="warning",
    summary="A parameter's name does not end as MXNet expects",
    why="Initializers and weight decay depend on the end of the name (_weight, _bias ...): a suffix changes training.",
    fails=dense().replace("fc_weight", "fc_weight_b"),
    passes=dense().replace("fc_weight", "b_fc_weight"),
)
def find(context: CheckContext) -> Violations:
    """Yield parameters with such names."""
    for node, _ in context.parameters:
        if "__init__" in node.attrs or node.name.endswith(SUFFIXES):
            continue
        match = INNER_FORMAL.search(node.name)
        if match is not None:
            message = (
                f"{node.name!r} continues after {match[1]!r}, so MXNet does not recognize its kind"
            )
            yield Violation(
                message, node=node, hint="use a prefix instead of a suffix: it keeps the ending"
            )
