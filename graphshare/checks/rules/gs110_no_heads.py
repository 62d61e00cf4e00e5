"""GS110: a graph without outputs."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import dense
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield the empty list of heads."""
    if context.has_graph and not context.graph.heads:
        yield Violation("has no outputs", ("heads",), hint="list the output entries, as [[id, 0, 0]]")


RULE = CheckRule(
    code="GS110",
    name="no-heads",
    level=Level.WARNING,
    summary="The graph has no outputs",
    why="MXNet loads it into a symbol that computes nothing.",
    find=find,
    fails=Example(dense().replace("[[3, 0, 0]]", "[]")),
    passes=Example(dense()),
)
