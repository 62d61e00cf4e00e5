"""GS102: nodes in a cycle."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level, parse_path


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield one cycle of each graph that has cycles, as a path."""
    for fault in context.reading.cycles:
        yield Violation(fault.message, parse_path(fault.path) or (), hint=fault.hint, name=fault.node)


RULE = CheckRule(
    code="GS102",
    name="cycle",
    level=Level.ERROR,
    summary="Nodes form a cycle",
    why="MXNet loads such a file without complaint and computes nonsense.",
    find=find,
    fails=Example(symbol(variable("data"), operator("elemwise_add", "a", 0, 2), operator("relu", "b", 1))),
    passes=Example(symbol(variable("data"), operator("elemwise_add", "a", 0, 0), operator("relu", "b", 1))),
)
