"""GS202: one name for two auxiliary states."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import normalized
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.naming import repeated
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each auxiliary state whose name an earlier one has."""
    if subject.sound:
        for name, first, later in repeated([(v.name, owner) for v, owner in subject.listed if v.auxiliary]):
            message = f"the auxiliary state {name!r} has the name of an earlier one (node {subject.ids[first]})"
            hint = "graphshare share --doctor tie makes variables of one name one node, --doctor separate renames them"
            yield Found(message, subject.steps_of(later), later, hint=hint)


RULE = Rule(
    code="GS202",
    name="double-auxiliary",
    level=Level.ERROR,
    summary="Two auxiliary states have one name",
    why="MXNet's Module refuses the graph: Duplicate names detected.",
    find=find,
    fails=Example(normalized(mean="bn_moving", var="bn_moving")),
    passes=Example(normalized()),
)
