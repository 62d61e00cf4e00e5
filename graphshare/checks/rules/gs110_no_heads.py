"""GS110: a graph without outputs."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """The empty list of heads."""
    if subject.sound and not subject.graph.heads:
        yield Found("has no outputs", ("heads",), hint="list the output entries, as [[id, 0, 0]]")


RULE = Rule(
    code="GS110",
    name="no-heads",
    level=Level.WARNING,
    summary="The graph has no outputs",
    why="MXNet loads it into a symbol that computes nothing.",
    find=find,
    fails=Example(dense().replace("[[3, 0, 0]]", "[]")),
    passes=Example(dense()),
)
