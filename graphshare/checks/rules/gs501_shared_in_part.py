"""GS501: some of an operator's parameters are shared with another operator and some are not."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.sharing import pairs_sharing
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each operator that shares its weight with an earlier one of its kind, but not its bias; gamma and beta likewise."""
    for pair in pairs_sharing(subject, ("weight", "bias", "gamma", "beta")):
        if pair.apart:
            message = f"shares {', '.join(pair.shared)} with {pair.first.name!r}, but not {', '.join(pair.apart)}"
            hint = "share both (graphshare share), or neither"
            yield Found(message, subject.steps_of(pair.second), pair.second, hint=hint)


_ATTRS = {"num_hidden": "2"}

RULE = Rule(
    code="GS501",
    name="shared-in-part",
    level=Level.WARNING,
    summary="Two operators share a weight and not its bias",
    why="The branches look shared and drift apart all the same.",
    find=find,
    fails=Example(
        symbol(
            *map(variable, ("x", "y", "w_weight", "a_bias", "b_bias")),
            operator("FullyConnected", "a", 0, 2, 3, **_ATTRS),
            operator("FullyConnected", "b", 1, 2, 4, **_ATTRS),
            heads=[5, 6],
        )
    ),
    passes=Example(
        symbol(
            *map(variable, ("x", "y", "w_weight", "w_bias")),
            operator("FullyConnected", "a", 0, 2, 3, **_ATTRS),
            operator("FullyConnected", "b", 1, 2, 3, **_ATTRS),
            heads=[4, 5],
        )
    ),
)
