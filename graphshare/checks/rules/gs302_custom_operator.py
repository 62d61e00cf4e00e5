"""GS302: an operator defined in Python."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)
from graphshare.ops.registry import canonical


@check_rule(
    level="error",
    summary="The graph needs Python code that the file does not contain",
    why="MXNet refuses to load the file until the operator is registered: Cannot find custom operator.",
    fails=symbol(variable("data"), operator("Custom", "a", 0, op_type="my_scale")),
    passes=symbol(variable("data"), operator("_mul_scalar", "a", 0, scalar="2")),
)
def find(context: CheckContext) -> Violations:
    """Yield Custom nodes."""
    for steps, node in context.operators():
        if canonical(node.op) == "Custom":
            kind = node.attrs.get("op_type", "")
            hint = "if the code is always available: --ignore GS302, or __graphshare_ignore__ on the node"
            yield Violation(
                f"needs the Python code of the custom operator {kind!r}", steps, node, hint=hint
            )
