"""GS307: shapes that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense, operator, symbol, variable
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.errors import Fault
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """The first operator whose shapes cannot be."""
    if not subject.inferable:
        return
    shapes = subject.shapes
    found = shapes.alone
    if not isinstance(found, Fault) and subject.params is not None:
        found = shapes.with_shapes
    if isinstance(found, Fault):
        node = shapes.original(found.node)
        yield Found(found.message, subject.steps_of(node), node, hint=found.hint, name=found.node)


_CHAIN = symbol(
    variable("data"),
    variable("a_weight"),
    operator("FullyConnected", "a", 0, 1, num_hidden="4", no_bias="True"),
    variable("b_weight", __shape__="(2, 5)"),
    operator("FullyConnected", "b", 2, 3, num_hidden="2", no_bias="True"),
)

RULE = Rule(
    code="GS307",
    name="shape-contradiction",
    level=Level.ERROR,
    summary="The shapes of the graph contradict each other",
    why="MXNet refuses to bind it. Known are the shapes that variables declare (__shape__), those of the parameter file, and "
    "what --shape says.",
    find=find,
    fails=Example(_CHAIN),
    passes=Example(dense(), (ExampleRecord("arg:fc_weight", (2, 3)), ExampleRecord("arg:fc_bias", (2,)))),
)
