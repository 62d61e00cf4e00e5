"""GS504: a suffix after the ending that MXNet looks for."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.analysis.roles import SUFFIXES
from graphshare.checks.context import CheckContext
from graphshare.checks.examples import dense
from graphshare.checks.names import INNER_FORMAL
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each parameter whose name continues after such an ending."""
    if not context.has_graph:
        return
    for node in context.reachable:
        role = context.roles.get(node)
        if role is None or not role.is_parameter or "__init__" in node.attrs or node.name.endswith(SUFFIXES):
            continue
        match = INNER_FORMAL.search(node.name)
        if match is not None:
            message = f"{node.name!r} continues after {match[1]!r}, so MXNet does not recognize its kind"
            yield Violation(
                message, context.node_steps(node), node, hint="use a prefix instead of a suffix: it keeps the ending"
            )


RULE = CheckRule(
    code="GS504",
    name="suffix",
    level=Level.WARNING,
    summary="A parameter's name does not end as MXNet expects",
    why="Initializers and weight decay depend on the end of the name (_weight, _bias ...): a suffix changes training.",
    find=find,
    fails=Example(dense().replace("fc_weight", "fc_weight_b")),
    passes=Example(dense().replace("fc_weight", "b_fc_weight")),
)
