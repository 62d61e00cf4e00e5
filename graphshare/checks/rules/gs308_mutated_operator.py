"""GS308: an operator's output where a state belongs."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import normalized, operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each auxiliary slot that no variable fills."""
    for steps, node in subject.operators():
        facts = subject.facts(node)
        for slot in facts.slots:
            if slot < len(node.inputs) and not node.inputs[slot].node.is_variable:
                formal = facts.formals[slot] if facts.formals is not None else f"input {slot}"
                message = f"{formal} is the output of {node.inputs[slot].node.name!r}, but {node.op} writes into it"
                yield Found(message, (*steps, "inputs", slot), node, hint="give it a variable of its own")


_NAMES = ("data", "bn_gamma", "bn_beta", "bn_moving_mean")

RULE = Rule(
    code="GS308",
    name="mutated-operator",
    level=Level.ERROR,
    summary="An operator writes into an input that is no variable",
    why="Mutation target can only be Variable, says MXNet when such a graph is composed; a file can hold it all the same.",
    find=find,
    fails=Example(
        symbol(*map(variable, _NAMES), operator("relu", "var", 1), operator("BatchNorm", "bn", 0, 1, 2, 3, 4, eps="0.001"))
    ),
    passes=Example(normalized()),
)
