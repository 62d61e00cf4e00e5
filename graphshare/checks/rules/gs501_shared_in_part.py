"""GS501: an operator that shares only some of its parameters."""

from graphshare.checks.graph_facts import find_sharing_pairs
from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)

_ATTRS = {"num_hidden": "2"}


@check_rule(
    level="warning",
    summary="Two operators share a weight but not its bias",
    why="The branches look shared, but drift apart in training.",
    fails=symbol(
        *map(variable, ("x", "y", "w_weight", "a_bias", "b_bias")),
        operator("FullyConnected", "a", 0, 2, 3, **_ATTRS),
        operator("FullyConnected", "b", 1, 2, 4, **_ATTRS),
        heads=[5, 6],
    ),
    passes=symbol(
        *map(variable, ("x", "y", "w_weight", "w_bias")),
        operator("FullyConnected", "a", 0, 2, 3, **_ATTRS),
        operator("FullyConnected", "b", 1, 2, 3, **_ATTRS),
        heads=[4, 5],
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield operators that share only one of weight and bias, or of gamma and beta, with an earlier
    one.
    """
    for pair in find_sharing_pairs(context, ("weight", "bias", "gamma", "beta")):
        if pair.separate:
            message = f"shares {', '.join(pair.shared)} with {pair.first.name!r}, but not {', '.join(pair.separate)}"
            hint = "share both (graphshare share), or neither"
            yield Violation(message, node=pair.second, hint=hint)
