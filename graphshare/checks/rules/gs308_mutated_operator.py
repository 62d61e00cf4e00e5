"""GS308: an operator's output in place of an auxiliary state."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    batch_norm,
    check_rule,
    operator,
    symbol,
    variable,
)

_NAMES = ("data", "bn_gamma", "bn_beta", "bn_moving_mean")


@check_rule(
    level="error",
    summary="An operator writes into an input that is not a variable",
    why="MXNet refuses to compose such a graph (Mutation target can only be Variable), but a file can contain it.",
    fails=symbol(
        *map(variable, _NAMES),
        operator("relu", "var", 1),
        operator("BatchNorm", "bn", 0, 1, 2, 3, 4, eps="0.001"),
    ),
    passes=batch_norm(),
)
def find(context: CheckContext) -> Violations:
    """Yield such auxiliary slots."""
    for steps, node in context.operators():
        facts = context.facts(node)
        for slot in facts.slots:
            if slot < len(node.inputs) and not node.inputs[slot].node.is_variable:
                formal = facts.formals[slot] if facts.formals is not None else f"input {slot}"
                message = f"{formal} is the output of {node.inputs[slot].node.name!r}, but {node.op} writes into it"
                yield Violation(
                    message, (*steps, "inputs", slot), node, hint="give it a variable of its own"
                )
