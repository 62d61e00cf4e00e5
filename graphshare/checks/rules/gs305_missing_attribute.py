"""GS305: a required attribute is not there."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.attributes import find_attribute_faults
from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.ops.registry import canonical
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each attribute that is missing."""
    for steps, node, fault in find_attribute_faults(subject, "missing"):
        yield Found(fault.message, steps, node)
    for steps, node in subject.operators():
        if canonical(node.op) == "Reshape" and not ("shape" in node.attrs or "target_shape" in node.attrs):
            yield Found("missing attribute 'shape': nothing says what to reshape to", steps, node)


RULE = Rule(
    code="GS305",
    name="missing-attribute",
    level=Level.ERROR,
    summary="An operator lacks an attribute that it requires",
    why="MXNet refuses the file: Required parameter ... is not presented.",
    find=find,
    fails=Example(dense().replace('"num_hidden"', '"__num_hidden__"')),
    passes=Example(dense()),
)
