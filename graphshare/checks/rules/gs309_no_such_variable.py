"""GS309: a shape for a variable that does not exist."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import dense
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level
from graphshare.text.names import did_you_mean


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each name of ``--shape`` that no variable has."""
    if context.has_graph and context.given_shapes:
        known = [variable.name for variable in context.name_lists.variables]
        for name in context.given_shapes:
            if name not in known:
                hint = did_you_mean(name, known) or f"the variables are {', '.join(known[:8])}"
                yield Violation(f"a shape is given for {name!r}, but no variable has this name", hint=hint, name=name)


RULE = CheckRule(
    code="GS309",
    name="no-such-variable",
    level=Level.ERROR,
    summary="A shape is given for a variable that the graph does not have",
    why="Module refuses such a name: the input is not found in list_arguments.",
    find=find,
    fails=Example(dense(), shapes={"date": (1, 3)}),
    passes=Example(dense(), shapes={"data": (1, 3)}),
)
