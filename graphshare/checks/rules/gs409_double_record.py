"""GS409: two records with one key."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import DENSE_RECORDS, dense
from graphshare.checks.names import find_repeats
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each record whose key an earlier one has."""
    for key, first, later in find_repeats([(record.key, record) for record in context.records]):
        message = f"has the key {key!r} of record {first.number}; MXNet keeps the last"
        yield Violation(message, hint="remove the wrong one", record=later.place)


RULE = CheckRule(
    code="GS409",
    name="double-record",
    level=Level.WARNING,
    summary="Two records of the parameter file have the same key",
    why="mx.nd.load silently keeps the last.",
    find=find,
    fails=Example(dense(), (*DENSE_RECORDS, DENSE_RECORDS[1])),
    passes=Example(dense(), DENSE_RECORDS),
)
