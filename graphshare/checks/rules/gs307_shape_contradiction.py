"""GS307: shapes that contradict each other."""

from graphshare.checks.rule import (
    CheckContext,
    Example,
    ExampleRecord,
    Violation,
    Violations,
    check_rule,
    dense,
    operator,
    symbol,
    variable,
)
from graphshare.checks.shapes import find_shapes
from graphshare.errors import Fault

_CHAIN = symbol(
    variable("data"),
    variable("a_weight"),
    operator("FullyConnected", "a", 0, 1, num_hidden="4", no_bias="True"),
    variable("b_weight", __shape__="(2, 5)"),
    operator("FullyConnected", "b", 2, 3, num_hidden="2", no_bias="True"),
)


@check_rule(
    level="error",
    summary="The shapes of the graph contradict each other",
    why="MXNet refuses to bind it. The known shapes are those that variables declare (__shape__), those of the parameter "
    "file, and those of --shape.",
    fails=_CHAIN,
    passes=Example(dense(), (ExampleRecord("arg:fc_weight", (2, 3)), ExampleRecord("arg:fc_bias", (2,)))),
)
def find(context: CheckContext) -> Violations:
    """Yield the first operator whose shapes contradict each other."""
    shapes = context.once(find_shapes)
    if shapes is None:
        return
    result = shapes.alone
    if not isinstance(result, Fault) and context.params is not None:
        result = shapes.with_shapes
    if isinstance(result, Fault):
        node = shapes.find_operator(result.node)
        yield Violation(result.message, node=node, hint=result.hint, name=result.node)
