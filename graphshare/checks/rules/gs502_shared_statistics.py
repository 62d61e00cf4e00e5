"""GS502: normalizations that share only scale or only moving statistics."""

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

_SCALE = frozenset(("gamma", "beta"))
_STATISTICS = frozenset(("moving_mean", "moving_var"))


def _twins(*names: str) -> str:
    first = [
        variable(name)
        for name in ("x", "y", "g_gamma", "g_beta", "a_moving_mean", "a_moving_var", *names)
    ]
    own = (6, 7) if names else (4, 5)
    n = len(first)
    twins = (operator("BatchNorm", "a", 0, 2, 3, 4, 5), operator("BatchNorm", "b", 1, 2, 3, *own))
    return symbol(*first, *twins, heads=[n, n + 1])


@check_rule(
    level="warning",
    summary="Two BatchNorms share the scale but not the moving statistics, or vice versa",
    why="Shared statistics are updated by each branch in turn; separate ones give equal branches different outputs.",
    fails=_twins("b_moving_mean", "b_moving_var"),
    passes=_twins(),
)
def find(context: CheckContext) -> Violations:
    """Yield normalizations that share one pair but not the other with an earlier one, or half a
    pair.
    """
    for pair in find_sharing_pairs(context, _SCALE | _STATISTICS):
        shares_statistics = not _STATISTICS.isdisjoint(pair.shared)
        has_own_statistics = not _STATISTICS.isdisjoint(pair.separate)
        shares_scale = not _SCALE.isdisjoint(pair.shared)
        if (shares_statistics and pair.separate) or (shares_scale and has_own_statistics):
            message = f"shares {', '.join(pair.shared)} with {pair.first.name!r}, but not {', '.join(pair.separate)}"
            hint = "suppress this if the branches see different data; otherwise share all four"
            yield Violation(message, node=pair.second, hint=hint)
