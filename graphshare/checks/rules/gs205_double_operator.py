"""GS205: one name for two operators."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.naming import repeated
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each operator whose name an earlier one has."""
    if subject.sound:
        operators = [(node.name, node) for node in subject.reachable if not node.is_variable]
        for name, first, later in repeated(operators):
            message = f"the operator {name!r} has the name of node {subject.ids[first]}"
            yield Found(message, subject.steps_of(later), later, hint="rename it if you address outputs by name")


RULE = Rule(
    code="GS205",
    name="double-operator",
    level=Level.NOTE,
    summary="Two operators have one name",
    why="MXNet runs the graph, and Gluon itself exports such graphs when a block is called twice; "
    "but get_internals()['a_output'] finds two outputs and refuses.",
    find=find,
    fails=Example(symbol(variable("data"), operator("relu", "a", 0), operator("relu", "a", 1))),
    passes=Example(symbol(variable("data"), operator("relu", "a", 0), operator("relu", "b", 1))),
)
