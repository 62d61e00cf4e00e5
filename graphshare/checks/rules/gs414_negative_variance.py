"""GS414: a variance below zero."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.analysis.implied import implied_variables
from graphshare.checks.examples import normalized
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.checks.values import below_zero
from graphshare.reports.model import Level

_REST = tuple(ExampleRecord(f"{kind}:bn_{formal}", (3,)) for kind, formal in (("arg", "gamma"), ("arg", "beta"),
                                                                              ("aux", "moving_mean")))  # fmt: skip


def find(subject: Subject) -> Iterator[Found]:
    """Each moving variance that holds a negative value."""
    if not subject.sound or subject.params is None:
        return
    names = dict.fromkeys(i.name for i in implied_variables(subject.graph) if i.formal == "moving_var")
    for node in subject.reachable:
        formals = subject.facts(node).formals if not node.is_variable else None
        for entry, formal in zip(node.inputs, formals or (), strict=False):
            if formal == "moving_var" and entry.node.is_variable:
                names[entry.node.name] = None
    for place, name in below_zero(subject, names):
        hint = "the file is damaged, or mean and variance changed places"
        yield Found("is a moving variance and holds values below zero", record=place, name=name, hint=hint)


RULE = Rule(
    code="GS414",
    name="negative-variance",
    level=Level.ERROR,
    summary="A moving variance is negative",
    why="BatchNorm takes its root: the outputs are NaN.",
    find=find,
    fails=Example(normalized(), (*_REST, ExampleRecord("aux:bn_moving_var", (3,), value=-1.0))),
    passes=Example(normalized(), (*_REST, ExampleRecord("aux:bn_moving_var", (3,)))),
)
