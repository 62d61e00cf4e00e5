"""GS108: ``arg_nodes`` that does not list the variables."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.ir.graph import VARIABLE
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """The list of each graph that disagrees with its nodes."""
    if subject.reading.wrong_arguments:
        return  # said as an error
    for steps, graph in subject.documents if subject.sound else ():
        variables = [i for i, node in enumerate(graph["nodes"]) if node["op"] == VARIABLE]
        listed = graph["arg_nodes"]
        if listed != variables:
            missing, extra = sorted(set(variables) - set(listed)), len(listed) - len(set(listed))
            what = (
                f"leaves out {len(missing)} of {len(variables)} variables, node {missing[0]} first"
                if missing
                else f"lists {extra} ids twice"
                if extra
                else "is not in the order of the nodes"
            )
            yield Found(f"arg_nodes {what}", (*steps, "arg_nodes"), hint="it lists the ids of all variables (op null) in order")


RULE = Rule(
    code="GS108",
    name="arg-nodes",
    level=Level.WARNING,
    summary="arg_nodes does not list the variables in order",
    why="MXNet does not use the list; other tools take the arguments from it.",
    find=find,
    fails=Example(dense().replace('"arg_nodes": [0, 1, 2]', '"arg_nodes": [0, 2]')),
    passes=Example(dense()),
    fix="writes the list that follows from the nodes",
)
