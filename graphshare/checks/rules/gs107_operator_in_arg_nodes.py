"""GS107: an operator among ``arg_nodes``."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import dense
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level, parse_path


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each id that names an operator."""
    for fault in context.reading.operator_arguments:
        yield Violation(fault.message, parse_path(fault.path) or (), hint=fault.hint, name=fault.node)


RULE = CheckRule(
    code="GS107",
    name="operator-in-arg-nodes",
    level=Level.ERROR,
    summary="arg_nodes lists an operator",
    why="MXNet checks nothing else of arg_nodes, but refuses a file for this.",
    find=find,
    fails=Example(dense().replace('"arg_nodes": [0, 1, 2]', '"arg_nodes": [0, 1, 3]')),
    passes=Example(dense()),
    fix="writes the list that follows from the nodes",
)
