"""GS201: one name for two arguments."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.naming import repeated
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each argument whose name an earlier one has."""
    if subject.sound:
        arguments = [(v.name, owner) for v, owner in subject.listed if not v.auxiliary]
        for name, first, later in repeated(arguments):
            message = f"the argument {name!r} has the name of an earlier one (node {subject.ids[first]})"
            hint = "graphshare share --doctor tie makes variables of one name one node, --doctor separate renames them"
            yield Found(message, subject.steps_of(later), later, hint=hint)


RULE = Rule(
    code="GS201",
    name="double-argument",
    level=Level.ERROR,
    summary="Two arguments have one name",
    why="Equal names are not sharing: MXNet's Module refuses the graph (Duplicate names detected), elsewhere a gradient "
    "silently stays 0, and a parameter file can hold only one of them.",
    find=find,
    fails=Example(symbol(variable("x"), variable("x"), operator("elemwise_add", "sum", 0, 1))),
    passes=Example(symbol(variable("x"), operator("elemwise_add", "sum", 0, 0))),
)
