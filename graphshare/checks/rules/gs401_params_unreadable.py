"""GS401: the parameter file cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level

DENSE = (ExampleRecord("arg:fc_weight", (2, 3)), ExampleRecord("arg:fc_bias", (2,)))


def find(subject: Subject) -> Iterator[Found]:
    """The reasons that the reader gives."""
    for fault in subject.params_faults:
        yield Found(fault.message, hint=fault.hint, record=fault.path)


RULE = Rule(
    code="GS401",
    name="params-unreadable",
    level=Level.ERROR,
    summary="The parameter file is damaged or is none",
    why="MXNet says just: Invalid NDArray file format.",
    find=find,
    fails=Example(dense(), DENSE, damaged=True),
    passes=Example(dense(), DENSE),
)
