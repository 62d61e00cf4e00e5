"""GS107: an operator among ``arg_nodes``."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level, parse_path


def find(subject: Subject) -> Iterator[Found]:
    """Each id that names an operator."""
    for fault in subject.reading.wrong_arguments:
        if "operator" in fault.message:
            yield Found(fault.message, parse_path(fault.path) or (), hint=fault.hint, name=fault.node)


RULE = Rule(
    code="GS107",
    name="operator-in-arg-nodes",
    level=Level.ERROR,
    summary="arg_nodes lists an operator",
    why="It is the one thing about arg_nodes that MXNet looks at, and it refuses the file for it.",
    find=find,
    fails=Example(dense().replace('"arg_nodes": [0, 1, 2]', '"arg_nodes": [0, 1, 3]')),
    passes=Example(dense()),
    fix="writes the list that follows from the nodes",
)
