"""GS207: a node without a name."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each node with an empty name."""
    if subject.sound:
        for node in subject.graph.nodes:
            if not node.name:
                what = "a variable" if node.is_variable else f"an operator ({node.op})"
                yield Found(f"{what} has no name", subject.steps_of(node), node, hint="give it one (graphshare rename)")


RULE = Rule(
    code="GS207",
    name="empty-name",
    level=Level.WARNING,
    summary="A node has an empty name",
    why="A variable without a name cannot be fed or found in a parameter file; an operator's outputs are called just 'output'.",
    find=find,
    fails=Example(dense().replace('"name": "fc"', '"name": ""')),
    passes=Example(dense()),
)
