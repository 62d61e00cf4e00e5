"""GS403: a record that no variable of the graph is called."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level
from graphshare.text.names import did_you_mean


def find(subject: Subject) -> Iterator[Found]:
    """Each record for which there is no variable."""
    if not subject.sound:
        return
    missing = [name for name in subject.wanted if name not in subject.held]
    for held in subject.records:
        if held.name not in subject.kinds:
            hint = did_you_mean(held.name, missing) or "remove it, or check that the file belongs to the graph"
            yield Found(f"no variable of the graph is called {held.name!r}", hint=hint, record=held.place)


RULE = Rule(
    code="GS403",
    name="surplus-parameter",
    level=Level.WARNING,
    summary="The parameter file holds what the graph does not use",
    why="Module ignores it, Gluon's SymbolBlock refuses it unless ignore_extra is set; often a name is misspelt.",
    find=find,
    fails=Example(dense(), (*DENSE, ExampleRecord("arg:fc2_weight", (2, 3)))),
    passes=Example(dense(), DENSE),
)
