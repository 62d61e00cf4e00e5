"""GS503: one SyncBatchNorm key for two operators."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.naming import repeated
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level

_OP = "_contrib_SyncBatchNorm"


def find(subject: Subject) -> Iterator[Found]:
    """Each operator whose key an earlier one has."""
    if subject.sound:
        keyed = [(node.attrs.get("key", ""), node) for node in subject.reachable if node.op == _OP]
        for key, first, later in repeated(keyed):
            message = f"has the key {key!r} of {first.name!r}"
            yield Found(message, subject.steps_of(later), later, hint="give each its own key; duplicate does so")


def _pair(second: str) -> str:
    names = ("data", "a_gamma", "a_beta", "a_moving_mean", "a_moving_var", "b_gamma", "b_beta", "b_moving_mean", "b_moving_var")
    a = operator(_OP, "a", 0, 1, 2, 3, 4, key="a", ndev="2")
    return symbol(*map(variable, names), a, operator(_OP, "b", 9, 5, 6, 7, 8, key=second, ndev="2"))


RULE = Rule(
    code="GS503",
    name="barrier-key",
    level=Level.WARNING,
    summary="Two SyncBatchNorms have one key",
    why="The key names a barrier of the process: with several devices the two wait for each other, and mix their statistics.",
    find=find,
    fails=Example(_pair("a")),
    passes=Example(_pair("b")),
)
