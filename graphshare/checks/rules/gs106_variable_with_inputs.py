"""GS106: a variable that has inputs."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level
from graphshare.text.format import format_count


def find(subject: Subject) -> Iterator[Found]:
    """Each such variable."""
    for steps, graph in subject.graphs:
        for i, node in enumerate(graph.nodes):
            if node.is_variable and node.inputs:
                hint = "a variable takes its value from outside; was an operator meant?"
                yield Found(
                    f"is a variable with {format_count(len(node.inputs), 'input')}", (*steps, "nodes", i), node, hint=hint
                )


_WRONG = {**variable("b"), "inputs": [[0, 0, 0]]}

RULE = Rule(
    code="GS106",
    name="variable-with-inputs",
    level=Level.WARNING,
    summary="A variable has inputs",
    why="MXNet keeps them and never uses them: an operator lost what it applies, or an id is wrong.",
    find=find,
    fails=Example(symbol(variable("data"), _WRONG, operator("relu", "a", 1))),
    passes=Example(symbol(variable("data"), operator("relu", "a", 0))),
)
