"""GS301: an operator that MXNet does not register."""

from functools import lru_cache

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)
from graphshare.ops.registry import find_kernel, load_registered_signatures, lookup
from graphshare.text.names import did_you_mean


@check_rule(
    level="error",
    summary="MXNet 1.9.1 has no such operator",
    why="MXNet refuses the file: Operator ... is not registered.",
    fails=symbol(variable("data"), operator("Relu", "a", 0)),
    passes=symbol(variable("data"), operator("relu", "a", 0)),
)
def find(context: CheckContext) -> Violations:
    """Yield nodes of such operators."""
    for steps, node in context.operators():
        if not context.facts(node).registered and node.op != "Custom":
            # MultiBoxPrior had no prefix before MXNet 1.0
            if lookup(f"_contrib_{node.op}") is not None:
                hint = f"MXNet 1.9.1 has it under the name '_contrib_{node.op}'"
            elif find_kernel(node.op) is not None:
                hint = "graphshare computes it, MXNet 1.9.1 does not load it"
            else:
                hint = (
                    _suggest(node.op)
                    or "a fork or an old release may have it; every other command accepts it"
                )
            yield Violation(
                f"the operator {node.op!r} is not one of MXNet 1.9.1", steps, node, hint=hint
            )


@lru_cache(maxsize=256)
def _suggest(op: str) -> str:
    return did_you_mean(op, load_registered_signatures())
