"""GS507: a parameter whose name says what it is not."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import normalized
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level

# What the ends of names say, in both of MXNet's ways of speaking.
_SAYS = {
    "weight": "weight",
    "bias": "bias",
    "gamma": "gamma",
    "beta": "beta",
    "moving_mean": "mean",
    "running_mean": "mean",
    "moving_var": "variance",
    "running_var": "variance",
}
_MEANS = {**_SAYS, "mean": "mean", "var": "variance"}


def find(subject: Subject) -> Iterator[Found]:
    """Each parameter that an operator takes for something else than its name says."""
    if not subject.sound:
        return
    for node in subject.reachable:
        formals = subject.facts(node).formals if not node.is_variable else None
        for k, (entry, formal) in enumerate(zip(node.inputs, formals or (), strict=False)):
            if formal not in _MEANS:
                continue
            says = next((said for end, said in _SAYS.items() if entry.node.name.endswith(f"_{end}")), None)
            means = _MEANS.get(formal)
            if entry.node.is_variable and says and means and says != means and len(subject.users[entry.node]) == 1:
                message = f"{entry.node.name!r} is the {formal} of {node.name!r}, and its name says {says}"
                place = (*subject.steps_of(node), "inputs", k)
                yield Found(message, place, entry.node, hint="are two inputs, or two names, swapped?")


RULE = Rule(
    code="GS507",
    name="misleading-name",
    level=Level.WARNING,
    summary="A parameter is used as something else than its name says",
    why="Inputs or names changed places: the parameter file gives each the other's values, and initialisers go by the name.",
    find=find,
    fails=Example(normalized(mean="bn_moving_var", var="bn_moving_mean")),
    passes=Example(normalized()),
)
