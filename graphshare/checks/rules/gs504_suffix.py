"""GS504: a suffix that hides what a parameter is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphshare.analysis.roles import SUFFIXES
from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level

_KNOWN = re.compile(r"(?:^|_)(weight|bias|gamma|beta|moving_mean|moving_var|running_mean|running_var)(?=[^a-z])")


def find(subject: Subject) -> Iterator[Found]:
    """Each parameter whose name goes on after the ending that MXNet looks for."""
    if not subject.sound:
        return
    for node in subject.reachable:
        role = subject.roles.get(node)
        if role is None or not role.is_parameter or "__init__" in node.attrs or node.name.endswith(SUFFIXES):
            continue
        match = _KNOWN.search(node.name)
        if match is not None:
            message = f"{node.name!r} goes on after {match[1]!r}, so MXNet does not see what it is"
            yield Found(message, subject.steps_of(node), node, hint="put what is added in front: a prefix keeps the ending")


RULE = Rule(
    code="GS504",
    name="suffix",
    level=Level.WARNING,
    summary="A parameter's name does not end as MXNet's rules want it",
    why="Initialisers and weight decay go by the end of the name (_weight, _bias ...): a suffix changes how it trains.",
    find=find,
    fails=Example(dense().replace("fc_weight", "fc_weight_b")),
    passes=Example(dense().replace("fc_weight", "b_fc_weight")),
)
