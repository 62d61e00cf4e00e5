"""GS005: a key that stands twice in one object."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Every key that comes again."""
    for steps in subject.reading.doubled:
        yield Found(f"the key {steps[-1]!r} stands twice; the last wins", steps, hint="remove the one that is not meant")


RULE = Rule(
    code="GS005",
    name="double-key",
    level=Level.ERROR,
    summary="A JSON object has one key twice",
    why="MXNet and this tool take the last, other readers the first or none: the file does not say one thing.",
    find=find,
    fails=Example(dense().replace('"name": "fc_bias"', '"name": "fc_bia", "name": "fc_bias"')),
    passes=Example(dense()),
    fix="keeps the last, as MXNet does",
)
