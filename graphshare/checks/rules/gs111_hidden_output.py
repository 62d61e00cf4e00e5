"""GS111: an output without a name."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)


@check_rule(
    level="warning",
    summary="An input or a head takes an internal output of its operator",
    why=(
        "It is scratch space, or filled in training only; no MXNet API composes such a graph, but "
        "a file can contain it."
    ),
    fails=symbol(
        variable("data"),
        operator("Pooling", "pool", 0, kernel="(2, 2)"),
        operator("relu", "a", (1, 1)),
    ),
    passes=symbol(
        variable("data"),
        operator("Pooling", "pool", 0, kernel="(2, 2)"),
        operator("relu", "a", (1, 0)),
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield the inputs and heads that take one."""
    for steps, consumer, entry in context.later_outputs():
        source = entry.node
        outputs = None if source.is_variable else context.facts(source).outputs
        if outputs is not None and outputs.visible <= entry.index < outputs.total:
            message = f"takes output {entry.index} of {source.name!r} ({source.op}), which is internal to {source.op}"
            hint = "take output 0, or set the attribute that makes it visible (output_mean_var, ret_typ)"
            yield Violation(message, steps, consumer, hint=hint)
