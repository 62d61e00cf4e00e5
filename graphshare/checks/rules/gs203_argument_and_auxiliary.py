"""GS203: one name for an argument and an auxiliary state."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import batch_norm
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each auxiliary state that has an argument's name."""
    if context.has_graph:
        arguments = set(context.name_lists.arguments)
        for variable, owner in context.variables:
            if variable.auxiliary and variable.name in arguments and variable.name:
                message = f"{variable.name!r} is an argument and an auxiliary state"
                yield Violation(message, context.node_steps(owner), owner, hint="rename one of the two")


RULE = CheckRule(
    code="GS203",
    name="argument-and-auxiliary",
    level=Level.WARNING,
    summary="An argument and an auxiliary state have the same name",
    why="Module keeps two arrays, Gluon one, and bind with the default backend confuses them.",
    find=find,
    fails=Example(batch_norm(mean="bn_beta")),
    passes=Example(batch_norm()),
)
