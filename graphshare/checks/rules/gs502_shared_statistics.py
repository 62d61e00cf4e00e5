"""GS502: moving statistics and the scale that goes with them are not shared alike."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.sharing import pairs_sharing
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level

_SCALE, _STATISTICS = ("gamma", "beta"), ("moving_mean", "moving_var")


def find(subject: Subject) -> Iterator[Found]:
    """Each normalisation that shares one pair with an earlier one and not the other, or half a pair."""
    for pair in pairs_sharing(subject, (*_SCALE, *_STATISTICS)):
        statistics = [formal for formal in pair.shared if formal in _STATISTICS]
        own = [formal for formal in pair.apart if formal in _STATISTICS]
        scale = [formal for formal in pair.shared if formal in _SCALE]
        if (statistics and pair.apart) or (scale and own):
            message = f"shares {', '.join(pair.shared)} with {pair.first.name!r}, but not {', '.join(pair.apart)}"
            hint = "branches on different data may want statistics of their own: then suppress this; else share all four"
            yield Found(message, subject.steps_of(pair.second), pair.second, hint=hint)


def _twins(*names: str) -> str:
    first = [variable(name) for name in ("x", "y", "g_gamma", "g_beta", "a_moving_mean", "a_moving_var", *names)]
    own = (6, 7) if names else (4, 5)
    n = len(first)
    twins = (operator("BatchNorm", "a", 0, 2, 3, 4, 5), operator("BatchNorm", "b", 1, 2, 3, *own))
    return symbol(*first, *twins, heads=[n, n + 1])


RULE = Rule(
    code="GS502",
    name="shared-statistics",
    level=Level.WARNING,
    summary="Two BatchNorms share scale and not moving statistics, or the other way round",
    why="Shared statistics are updated by each branch in turn; separate ones make equal branches answer differently.",
    find=find,
    fails=Example(_twins("b_moving_mean", "b_moving_var")),
    passes=Example(_twins()),
)
