"""GS401: the parameter file cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import DENSE_RECORDS, dense
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield the reasons that the reader gives."""
    for fault in context.params_faults:
        yield Violation(fault.message, hint=fault.hint, record=fault.path)


RULE = CheckRule(
    code="GS401",
    name="params-unreadable",
    level=Level.ERROR,
    summary="The parameter file is damaged or of another format",
    why="MXNet only reports: Invalid NDArray file format.",
    find=find,
    fails=Example(dense(), DENSE_RECORDS, damaged=True),
    passes=Example(dense(), DENSE_RECORDS),
)
