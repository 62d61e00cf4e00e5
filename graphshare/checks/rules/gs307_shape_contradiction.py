"""GS307: shapes that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import dense, operator, symbol, variable
from graphshare.checks.rule import CheckRule, Example, ExampleRecord, Violation
from graphshare.errors import Fault
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield the first operator whose shapes contradict each other."""
    if not context.can_infer_shapes:
        return
    shapes = context.shapes
    result = shapes.alone
    if not isinstance(result, Fault) and context.params is not None:
        result = shapes.with_shapes
    if isinstance(result, Fault):
        node = shapes.find_operator(result.node)
        yield Violation(result.message, context.node_steps(node), node, hint=result.hint, name=result.node)


_CHAIN = symbol(
    variable("data"),
    variable("a_weight"),
    operator("FullyConnected", "a", 0, 1, num_hidden="4", no_bias="True"),
    variable("b_weight", __shape__="(2, 5)"),
    operator("FullyConnected", "b", 2, 3, num_hidden="2", no_bias="True"),
)

RULE = CheckRule(
    code="GS307",
    name="shape-contradiction",
    level=Level.ERROR,
    summary="The shapes of the graph contradict each other",
    why="MXNet refuses to bind it. The known shapes are those that variables declare (__shape__), those of the parameter "
    "file, and those of --shape.",
    find=find,
    fails=Example(_CHAIN),
    passes=Example(dense(), (ExampleRecord("arg:fc_weight", (2, 3)), ExampleRecord("arg:fc_bias", (2,)))),
)
