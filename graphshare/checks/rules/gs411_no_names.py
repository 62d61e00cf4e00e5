"""GS411: a parameter file without names."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """The file, where its records have no names."""
    if subject.params is not None and subject.params.records and not subject.params.named:
        hint = "save it with names (mx.nd.save of a dict)"
        yield Found("is a list of arrays without names, which belong to no variable", record="", hint=hint)


RULE = Rule(
    code="GS411",
    name="no-names",
    level=Level.ERROR,
    summary="The parameter file has no names",
    why="Nothing tells which array is which parameter; load_checkpoint and SymbolBlock.imports fail.",
    find=find,
    fails=Example(dense(), DENSE, named=False),
    passes=Example(dense(), DENSE),
)
