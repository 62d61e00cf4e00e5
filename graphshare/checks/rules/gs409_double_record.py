"""GS409: two records of one key."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.naming import repeated
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each record whose key an earlier one has."""
    for key, first, later in repeated([(held.record.key or "", held) for held in subject.records]):
        message = f"has the key {key!r} of record {first.number}; MXNet keeps the last"
        yield Found(message, hint="remove the one that is not meant", record=later.place)


RULE = Rule(
    code="GS409",
    name="double-record",
    level=Level.WARNING,
    summary="Two records of the parameter file have one key",
    why="mx.nd.load keeps the last and says nothing.",
    find=find,
    fails=Example(dense(), (*DENSE, DENSE[1])),
    passes=Example(dense(), DENSE),
)
