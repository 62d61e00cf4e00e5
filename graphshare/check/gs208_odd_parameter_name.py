"""GS208: a parameter that is not named after the operator it belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.check.examples import dense
from graphshare.check.model import Example, Found, Rule
from graphshare.check.sharing import parameters_of
from graphshare.check.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each operator that names some of its own parameters after itself and others not."""
    if not subject.sound:
        return
    users = subject.users
    for node in subject.reachable:
        mine = parameters_of(subject, node, _FORMALS)
        own = {formal: v for formal, v in mine.items() if len(users[v]) == 1 and v.name.endswith(formal)}
        stems = {variable.name.removesuffix(formal) for formal, variable in own.items()}
        if len(own) > 1 and len(stems) > 1:
            common = max(sorted(stems), key=lambda stem: sum(v.name.startswith(stem) for v in own.values()))
            for variable in own.values():
                if not variable.name.startswith(common):
                    message = f"{variable.name!r} is not named like the other parameters of {node.name!r} ({common}...)"
                    yield Found(message, subject.steps_of(variable), variable, hint="is it misspelt?")


_FORMALS = ("weight", "bias", "gamma", "beta")

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
