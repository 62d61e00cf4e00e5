"""GS506: a prefix that hides what a parameter is."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level

_STARTS = ("upsampling", "stn_loc")


def find(subject: Subject) -> Iterator[Found]:
    """Each parameter whose name has a start that MXNet looks for, but not at its start."""
    if subject.sound:
        for node in subject.reachable:
            role = subject.roles.get(node)
            if role is None or not role.is_parameter or "__init__" in node.attrs:
                continue
            start = next((s for s in _STARTS if s in node.name and not node.name.startswith(s)), None)
            if start is not None:
                message = f"{node.name!r} no longer starts with {start!r}, so it is initialised like any other"
                hint = "give the variable an __init__ attribute"
                yield Found(message, subject.steps_of(node), node, hint=hint)


_ATTRS = {"kernel": "(4, 4)", "num_filter": "2", "stride": "(2, 2)"}


def _upsampling(name: str) -> str:
    return symbol(variable("data"), variable(f"{name}_weight"), operator("Deconvolution", name, 0, 1, **_ATTRS))


RULE = Rule(
    code="GS506",
    name="prefix",
    level=Level.NOTE,
    summary="A prefix hides upsampling or stn_loc, which MXNet looks for at the start of a name",
    why="Parameters called upsampling... are initialised bilinearly, stn_loc... in a way of their own; only for training anew.",
    find=find,
    fails=Example(_upsampling("sha-upsampling0")),
    passes=Example(_upsampling("upsampling0")),
)
