"""GS203: one name for an argument and an auxiliary state."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import normalized
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each auxiliary state that has an argument's name."""
    if subject.sound:
        arguments = set(subject.lists.arguments)
        for variable, owner in subject.listed:
            if variable.auxiliary and variable.name in arguments and variable.name:
                message = f"{variable.name!r} is an argument and an auxiliary state"
                yield Found(message, subject.steps_of(owner), owner, hint="rename one of the two")


RULE = Rule(
    code="GS203",
    name="argument-and-auxiliary",
    level=Level.WARNING,
    summary="An argument and an auxiliary state have one name",
    why="Module keeps two arrays, Gluon one, and bind with the default backend mixes them up.",
    find=find,
    fails=Example(normalized(mean="bn_beta")),
    passes=Example(normalized()),
)
