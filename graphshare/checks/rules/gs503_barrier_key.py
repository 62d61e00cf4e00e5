"""GS503: one SyncBatchNorm key for two operators."""

from graphshare.checks.graph_facts import find_repeats
from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)
from graphshare.ops.normalization.signature import BARRIER

_OP, _KEY = BARRIER


def _pair(second: str) -> str:
    names = (
        "data",
        "a_gamma",
        "a_beta",
        "a_moving_mean",
        "a_moving_var",
        "b_gamma",
        "b_beta",
        "b_moving_mean",
        "b_moving_var",
    )
    a = operator(_OP, "a", 0, 1, 2, 3, 4, key="a", ndev="2")
    return symbol(*map(variable, names), a, operator(_OP, "b", 9, 5, 6, 7, 8, key=second, ndev="2"))


@check_rule(
    level="warning",
    summary="Two SyncBatchNorms have the same key",
    why=(
        "The key names a barrier of the process: with several devices the two wait for each "
        "other, and mix their statistics."
    ),
    fails=_pair("a"),
    passes=_pair("b"),
)
def find(context: CheckContext) -> Violations:
    """Yield repetitions."""
    keyed = [(node.attrs.get(_KEY, ""), node) for node in context.reachable if node.op == _OP]
    for key, first, later in find_repeats(keyed):
        message = f"has the key {key!r} of {first.name!r}"
        yield Violation(message, node=later, hint="give each its own key, as duplicate does")
