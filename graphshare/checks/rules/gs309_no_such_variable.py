"""GS309: a shape is given for a variable that is not there."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level
from graphshare.text.names import did_you_mean


def find(subject: Subject) -> Iterator[Found]:
    """Each name that ``--shape`` gives and no variable bears."""
    if subject.sound and subject.given:
        known = [variable.name for variable in subject.lists.variables]
        for name in subject.given:
            if name not in known:
                hint = did_you_mean(name, known) or f"the variables are {', '.join(known[:8])}"
                yield Found(f"no variable is called {name!r}, for which a shape is given", hint=hint, name=name)


RULE = Rule(
    code="GS309",
    name="no-such-variable",
    level=Level.ERROR,
    summary="A shape is given for a variable that the graph does not have",
    why="Whoever binds the graph names its inputs so: Module says that the input is not found in list_arguments.",
    find=find,
    fails=Example(dense(), shapes={"date": (1, 3)}),
    passes=Example(dense(), shapes={"data": (1, 3)}),
)
