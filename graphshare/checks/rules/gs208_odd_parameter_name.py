"""GS208: a parameter that is not named after the operator it belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.sharing import parameters_of
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each operator that names some of its own parameters after itself and others not."""
    if not subject.sound:
        return
    users = subject.users
    for node in subject.reachable:
        named = (subject.facts(node).formals or ()) if not node.is_variable else ()
        for formals in _GROUPS:
            if formals[0] not in named or formals[1] not in named:
                continue
            mine = parameters_of(subject, node, formals)
            own = {formal: v for formal, v in mine.items() if len(users[v]) == 1 and v.name.endswith(formal)}
            stems = {variable.name.removesuffix(formal) for formal, variable in own.items()}
            if len(own) == len(formals) and len(stems) > 1:
                names = " and ".join(repr(variable.name) for variable in own.values())
                message = f"the parameters {names} of {node.name!r} are not named alike"
                yield Found(message, subject.steps_of(node), node, hint="is one of them misspelt?")


_GROUPS = (("weight", "bias"), ("gamma", "beta"), ("moving_mean", "moving_var"))

RULE = Rule(
    code="GS208",
    name="odd-parameter-name",
    level=Level.NOTE,
    summary="A parameter is not named like the other parameters of its operator",
    why="Parameter files are matched by name; an odd one is often a misspelling.",
    find=find,
    fails=Example(dense().replace("fc_bias", "fv_bias")),
    passes=Example(dense()),
)
