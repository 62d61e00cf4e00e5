"""GS002: JSON that is no graph."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level, parse_path


def find(subject: Subject) -> Iterator[Found]:
    """Every place that departs from the schema."""
    for fault in subject.reading.misshapen:
        yield Found(fault.message, parse_path(fault.path) or (), hint=fault.hint, name=fault.node)


RULE = Rule(
    code="GS002",
    name="not-a-graph",
    level=Level.ERROR,
    summary="A required key is missing or a value has the wrong type",
    why="MXNet stops at the first such place. Attribute values are strings, numbers too; ids are integers from 0.",
    find=find,
    fails=Example(dense().replace('"num_hidden": "2"', '"num_hidden": 2')),
    passes=Example(dense()),
)
