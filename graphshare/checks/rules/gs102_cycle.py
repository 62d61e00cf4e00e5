"""GS102: nodes that need each other."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level, parse_path


def find(subject: Subject) -> Iterator[Found]:
    """A circle of each graph that has one, shown as a path."""
    for fault in subject.reading.circles:
        yield Found(fault.message, parse_path(fault.path) or (), hint=fault.hint, name=fault.node)


RULE = Rule(
    code="GS102",
    name="cycle",
    level=Level.ERROR,
    summary="Nodes need their own output",
    why="MXNet loads such a file without complaint and computes nonsense.",
    find=find,
    fails=Example(symbol(variable("data"), operator("elemwise_add", "a", 0, 2), operator("relu", "b", 1))),
    passes=Example(symbol(variable("data"), operator("elemwise_add", "a", 0, 0), operator("relu", "b", 1))),
)
