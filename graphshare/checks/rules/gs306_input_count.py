"""GS306: too few or too many inputs."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.analysis.implied import implies_variables
from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level
from graphshare.text.format import format_count

# Control flow counts its bodies among num_args; they are sub-graphs and no inputs.
_BODIES = {"_foreach": 1, "_while_loop": 2, "_cond": 3}


def find(subject: Subject) -> Iterator[Found]:
    """Each operator whose inputs are not as many as its attributes say."""
    if not subject.sound:
        return
    invented = implies_variables(subject.graph)
    for steps, node in subject.operators():
        facts = subject.facts(node)
        if not facts.registered or facts.formals is None or any(fault.kind != "unknown" for fault in facts.faults):
            continue
        formals = facts.formals[_BODIES.get(node.op, 0) :]
        has, wants = len(node.inputs), len(formals)
        if has > wants or (has < wants and not (invented and facts.named and len(steps) == 2)):
            names = ", ".join(formals[:8]) or "none"
            message = f"{node.op} has {format_count(has, 'input')}, but its attributes ask for {wants} ({names})"
            hint = "files without mxnet_version, or before 0.9, may leave inputs out; this one may not" if has < wants else ""
            yield Found(message, (*steps, "inputs"), node, hint=hint)


RULE = Rule(
    code="GS306",
    name="input-count",
    level=Level.ERROR,
    summary="An operator has too few or too many inputs",
    why="MXNet loads the file and fails when shapes are inferred.",
    find=find,
    fails=Example(dense().replace("[[0, 0, 0], [1, 0, 0], [2, 0, 0]]", "[[0, 0, 0], [1, 0, 0]]")),
    passes=Example(dense()),
)
