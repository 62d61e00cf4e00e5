"""GS106: a variable that has inputs."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level
from graphshare.text.format import format_count


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each such variable."""
    for steps, graph in context.graphs:
        for i, node in enumerate(graph.nodes):
            if node.is_variable and node.inputs:
                hint = "a variable takes its value from outside; should it be an operator?"
                yield Violation(
                    f"is a variable with {format_count(len(node.inputs), 'input')}", (*steps, "nodes", i), node, hint=hint
                )


_WRONG = {**variable("b"), "inputs": [[0, 0, 0]]}

RULE = CheckRule(
    code="GS106",
    name="variable-with-inputs",
    level=Level.WARNING,
    summary="A variable has inputs",
    why="MXNet keeps them and never uses them: an operator became a variable, or an id is wrong.",
    find=find,
    fails=Example(symbol(variable("data"), _WRONG, operator("relu", "a", 1))),
    passes=Example(symbol(variable("data"), operator("relu", "a", 0))),
)
