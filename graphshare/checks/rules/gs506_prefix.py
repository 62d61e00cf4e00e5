"""GS506: a prefix before the beginning that MXNet looks for."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level

_STARTS = ("upsampling", "stn_loc")


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each parameter whose name contains a beginning that MXNet looks for, but does not start with it."""
    if context.has_graph:
        for node in context.reachable:
            role = context.roles.get(node)
            if role is None or not role.is_parameter or "__init__" in node.attrs:
                continue
            start = next((s for s in _STARTS if s in node.name and not node.name.startswith(s)), None)
            if start is not None:
                message = f"{node.name!r} no longer starts with {start!r}, so it is initialized like any other"
                hint = "give the variable an __init__ attribute"
                yield Violation(message, context.node_steps(node), node, hint=hint)


_ATTRS = {"kernel": "(4, 4)", "num_filter": "2", "stride": "(2, 2)"}


def _upsampling(name: str) -> str:
    return symbol(variable("data"), variable(f"{name}_weight"), operator("Deconvolution", name, 0, 1, **_ATTRS))


RULE = CheckRule(
    code="GS506",
    name="prefix",
    level=Level.NOTE,
    summary="A prefix hides upsampling or stn_loc, which MXNet looks for at the start of a name",
    why="Parameters called upsampling... are initialized bilinearly, stn_loc... specially; this matters only for training.",
    find=find,
    fails=Example(_upsampling("sha-upsampling0")),
    passes=Example(_upsampling("upsampling0")),
)
