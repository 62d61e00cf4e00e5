"""GS301: an operator that MXNet does not register."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.ops.registry import registered_signatures
from graphshare.reports.model import Level
from graphshare.text.names import did_you_mean


def find(subject: Subject) -> Iterator[Found]:
    """Each node of such an operator."""
    for steps, node in subject.operators():
        if not subject.facts(node).registered and node.op != "Custom":
            hint = _near(node.op) or "a fork or an old release had it; every other command works on it"
            yield Found(f"the operator {node.op!r} is not one of MXNet 1.9.1", steps, node, hint=hint)


@lru_cache(maxsize=256)
def _near(op: str) -> str:
    return did_you_mean(op, registered_signatures())


RULE = Rule(
    code="GS301",
    name="unknown-operator",
    level=Level.ERROR,
    summary="MXNet 1.9.1 has no such operator",
    why="It refuses the file: Operator ... is not registered.",
    find=find,
    fails=Example(symbol(variable("data"), operator("Relu", "a", 0))),
    passes=Example(symbol(variable("data"), operator("relu", "a", 0))),
)
