"""GS505: a parameter that no initialiser knows."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.analysis.roles import SUFFIXES
from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.rules.gs504_suffix import _KNOWN
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each parameter whose name has none of the endings that MXNet knows, and no initialiser of its own."""
    if subject.sound:
        for node in subject.reachable:
            role = subject.roles.get(node)
            if role is None or not role.is_parameter or "__init__" in node.attrs or not node.name:
                continue
            if not node.name.endswith(SUFFIXES) and _KNOWN.search(node.name) is None:
                what = role.why.removesuffix(" of") if role.user is not None else "a parameter"
                message = f"{node.name!r} is {what} by its use, and its name does not say so"
                yield Found(message, subject.steps_of(node), node, hint="let it end in _weight, _bias ..., or give it __init__")


RULE = Rule(
    code="GS505",
    name="no-initialiser",
    level=Level.NOTE,
    summary="A parameter's name has no ending that MXNet's initialisers know",
    why="init_params stops (Unknown initialization pattern); a trained model loads all the same.",
    find=find,
    fails=Example(dense().replace("fc_weight", "fc_kernel")),
    passes=Example(dense()),
)
