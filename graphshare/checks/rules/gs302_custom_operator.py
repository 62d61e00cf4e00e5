"""GS302: an operator defined in Python."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.ops.registry import canonical
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each Custom node."""
    for steps, node in subject.operators():
        if canonical(node.op) == "Custom":
            kind = node.attrs.get("op_type", "")
            hint = "ignore this where the code is always there: --ignore GS302, or __graphshare_ignore__ on the node"
            yield Found(f"needs the Python code of the custom operator {kind!r}", steps, node, hint=hint)


RULE = Rule(
    code="GS302",
    name="custom-operator",
    level=Level.ERROR,
    summary="The graph needs Python code that the file does not hold",
    why="MXNet refuses to load the file until the operator is registered: Cannot find custom operator.",
    find=find,
    fails=Example(symbol(variable("data"), operator("Custom", "a", 0, op_type="my_scale"))),
    passes=Example(symbol(variable("data"), operator("_mul_scalar", "a", 0, scalar="2"))),
)
