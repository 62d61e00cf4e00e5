"""GS303: an attribute that the operator does not take."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphshare.checks.attributes import faults_of
from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level
from graphshare.text.names import did_you_mean

_TAKES = re.compile(r"; \S+ takes (.*)", re.DOTALL)


def find(subject: Subject) -> Iterator[Found]:
    """Each such attribute."""
    for steps, node, key, message in faults_of(subject, "unknown"):
        takes = _TAKES.search(message)
        near = did_you_mean(key, takes[1].split(", ")) if takes else ""
        yield Found(message, steps, node, hint=near or "keys that begin and end with two underscores are free")


RULE = Rule(
    code="GS303",
    name="unknown-attribute",
    level=Level.ERROR,
    summary="An operator has an attribute that it does not take",
    why="MXNet refuses the file: Cannot find argument.",
    find=find,
    fails=Example(dense().replace('"num_hidden": "2"', '"num_hidden": "2", "no_bais": "False"')),
    passes=Example(dense().replace('"num_hidden": "2"', '"num_hidden": "2", "no_bias": "False"')),
)
