"""GS002: JSON that is not a graph."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import dense
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level, parse_path


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield every place that does not match the schema."""
    for fault in context.reading.schema_faults:
        yield Violation(fault.message, parse_path(fault.path) or (), hint=fault.hint, name=fault.node)


RULE = CheckRule(
    code="GS002",
    name="not-a-graph",
    level=Level.ERROR,
    summary="A required key is missing or a value has the wrong type",
    why="MXNet stops at the first such place. Attribute values are strings, numbers too; ids are integers from 0.",
    find=find,
    fails=Example(dense().replace('"num_hidden": "2"', '"num_hidden": 2')),
    passes=Example(dense()),
)
