"""GS505: a parameter without an initializer."""

from graphshare.analysis.roles import SUFFIXES, Kind
from graphshare.checks.graph_facts import INNER_FORMAL
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="note",
    summary="A parameter's name has no ending that MXNet's initializers know",
    why="init_params stops (Unknown initialization pattern); a trained model still loads.",
    fails=dense().replace("fc_weight", "fc_kernel"),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield parameters without ``__init__`` or an ending that MXNet recognizes."""
    for node, role in context.parameters:
        if "__init__" in node.attrs or not node.name:
            continue
        if not node.name.endswith(SUFFIXES) and INNER_FORMAL.search(node.name) is None:
            use = role.why.removesuffix(" of") if role.user is not None else "a parameter"
            if role.kind is Kind.AUXILIARY:
                use = "an auxiliary state"
            message = f"{node.name!r} is {use} by its use, but its name does not show it"
            yield Violation(
                message, node=node, hint="end the name in _weight, _bias ..., or add __init__"
            )
