"""GS205: one name for two operators."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.names import find_repeats
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each operator whose name an earlier one has."""
    if context.has_graph:
        operators = [(node.name, node) for node in context.reachable if not node.is_variable]
        for name, first, later in find_repeats(operators):
            message = f"the operator {name!r} has the name of node {context.ids[first]}"
            yield Violation(message, context.node_steps(later), later, hint="rename it if you address outputs by name")


RULE = CheckRule(
    code="GS205",
    name="double-operator",
    level=Level.NOTE,
    summary="Two operators have the same name",
    why="MXNet runs the graph, and Gluon itself exports such graphs when a block is called twice; "
    "but get_internals()['a_output'] finds two outputs and refuses.",
    find=find,
    fails=Example(symbol(variable("data"), operator("relu", "a", 0), operator("relu", "a", 1))),
    passes=Example(symbol(variable("data"), operator("relu", "a", 0), operator("relu", "b", 1))),
)
