"""GS206: two parameter nodes that were meant to be one."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.ir.graph import Node
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each parameter that fills, under one name, the same input of another operator of the same kind."""
    if not subject.sound:
        return
    first: dict[tuple[str, str], Node] = {}
    for node in subject.reachable:
        role = subject.roles.get(node)
        if role is None or not role.is_parameter or not node.name or role.user is None:
            continue
        original = first.setdefault((node.name, role.why + role.user.op), node)
        if original is not node:
            message = f"{node.name!r} and node {subject.ids[original]} are two parameters of one name and use"
            hint = "graphshare share GRAPH --doctor tie makes them one node, --doctor separate gives each its name"
            yield Found(message, subject.steps_of(node), node, hint=hint)


_ATTRS = {"num_hidden": "2", "no_bias": "True"}

RULE = Rule(
    code="GS206",
    name="meant-as-one",
    level=Level.WARNING,
    summary="Two parameters of one name fill the same input of two operators of one kind",
    why="Whoever wrote the file wanted them shared, but sharing means one node: these train apart, or not at all.",
    find=find,
    fails=Example(
        symbol(
            variable("data"),
            variable("w_weight"),
            operator("FullyConnected", "a", 0, 1, **_ATTRS),
            variable("w_weight"),
            operator("FullyConnected", "b", 2, 3, **_ATTRS),
        )
    ),
    passes=Example(
        symbol(
            variable("data"),
            variable("w_weight"),
            operator("FullyConnected", "a", 0, 1, **_ATTRS),
            operator("FullyConnected", "b", 2, 1, **_ATTRS),
        )
    ),
)
