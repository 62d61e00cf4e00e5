"""GS207: a node without a name."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import dense
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each node with an empty name."""
    if context.has_graph:
        for node in context.graph.nodes:
            if not node.name:
                subject = "a variable" if node.is_variable else f"an operator ({node.op})"
                yield Violation(
                    f"{subject} has no name", context.node_steps(node), node, hint="give it one (graphshare rename)"
                )


RULE = CheckRule(
    code="GS207",
    name="empty-name",
    level=Level.WARNING,
    summary="A node has an empty name",
    why="A variable without a name cannot be fed or found in a parameter file; an operator's output is just called 'output'.",
    find=find,
    fails=Example(dense().replace('"name": "fc"', '"name": ""')),
    passes=Example(dense()),
)
