"""GS304: the value of an attribute cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.attributes import find_attribute_faults
from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each such attribute, and attributes that contradict each other."""
    for steps, node, fault in find_attribute_faults(subject, "unreadable", "constraint"):
        yield Found(fault.message, steps, node)


RULE = Rule(
    code="GS304",
    name="attribute-value",
    level=Level.ERROR,
    summary="The value of an attribute is not spelled as its operator reads it",
    why="MXNet refuses the file: Invalid Parameter format.",
    find=find,
    fails=Example(dense().replace('"num_hidden": "2"', '"num_hidden": "2.0"')),
    passes=Example(dense()),
)
