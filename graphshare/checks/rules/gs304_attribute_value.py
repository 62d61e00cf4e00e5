"""GS304: the value of an attribute cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import dense
from graphshare.checks.operators import find_attribute_faults
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each such attribute, and attributes that contradict each other."""
    for steps, node, fault in find_attribute_faults(context, "unreadable", "constraint"):
        yield Violation(fault.message, steps, node)


RULE = CheckRule(
    code="GS304",
    name="attribute-value",
    level=Level.ERROR,
    summary="The operator cannot read the value of an attribute",
    why="MXNet refuses the file: Invalid Parameter format.",
    find=find,
    fails=Example(dense().replace('"num_hidden": "2"', '"num_hidden": "2.0"')),
    passes=Example(dense()),
)
