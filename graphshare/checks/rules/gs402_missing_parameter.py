"""GS402: a parameter that the file does not hold."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.rules.gs401_params_unreadable import DENSE
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level
from graphshare.text.names import did_you_mean


def find(subject: Subject) -> Iterator[Found]:
    """Each parameter and auxiliary state without a record."""
    if not subject.sound or subject.params is None or not (subject.params.named or not subject.params.records):
        return
    free = [name for name in subject.held if name not in subject.kinds]
    for name, node in subject.wanted.items():
        if name not in subject.held:
            hint = did_you_mean(name, free) or "is it the right file?"
            message = f"the parameter file does not hold {name!r}"
            yield Found(message, subject.steps_of(node), node, hint=hint, name=name)


RULE = Rule(
    code="GS402",
    name="missing-parameter",
    level=Level.ERROR,
    summary="The parameter file does not hold a parameter of the graph",
    why="Module.set_params and Gluon's SymbolBlock refuse it: ... is not presented.",
    find=find,
    fails=Example(dense(), DENSE[:1]),
    passes=Example(dense(), DENSE),
)
