"""GS408: NaN or infinity among the parameters."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.checks.values import not_finite
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each array that holds some."""
    for place, count, size in not_finite(subject):
        hint = "training went wrong, or the file is damaged"
        yield Found(f"holds {count:,} values of {size:,} that are NaN or infinite", record=place, hint=hint)


RULE = Rule(
    code="GS408",
    name="not-finite",
    level=Level.ERROR,
    summary="A parameter holds NaN or infinity",
    why="One is enough to make every output NaN.",
    find=find,
    fails=Example(dense(), (DENSE[0], ExampleRecord("arg:fc_bias", (2,), value=float("nan")))),
    passes=Example(dense(), DENSE),
)
