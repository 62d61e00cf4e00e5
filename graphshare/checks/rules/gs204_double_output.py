"""GS204: one name for two outputs."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.analysis.name_lists import output_name
from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.naming import repeated
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each head whose output has an earlier one's name."""
    if subject.sound:
        named = [(output_name(entry), (i, entry.node)) for i, entry in enumerate(subject.graph.heads)]
        for name, first, (i, node) in repeated(named):
            hint = "rename one of the operators" if first[1] is not node else "list the output once"
            yield Found(f"output {i} has the name {name!r} of output {first[0]}", ("heads", i), node, hint=hint)


RULE = Rule(
    code="GS204",
    name="double-output",
    level=Level.WARNING,
    summary="Two outputs have one name",
    why="executor.output_dict refuses them (Duplicate names), and a name no longer finds its output.",
    find=find,
    fails=Example(symbol(variable("data"), operator("relu", "a", 0), operator("relu", "a", 1), heads=[1, 2])),
    passes=Example(symbol(variable("data"), operator("relu", "a", 0), operator("relu", "b", 1), heads=[1, 2])),
)
