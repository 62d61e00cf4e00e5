"""GS104: nodes that no output needs."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.ir.walk import reachable
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Each node that no head needs."""
    for steps, graph in subject.graphs:
        needed = set(reachable(graph) if steps else subject.reachable)
        if len(needed) < len(graph.nodes):
            for i, node in enumerate(graph.nodes):
                if node not in needed:
                    hint = "name it among the heads, or remove it (graphshare extract)"
                    yield Found(f"no output needs {node.name!r} ({node.op})", (*steps, "nodes", i), node, hint=hint)


RULE = Rule(
    code="GS104",
    name="unreachable",
    level=Level.WARNING,
    summary="A node is needed by no output",
    why="It is in no list and MXNet drops it when it writes the file; often it is the trace of a wrong id.",
    find=find,
    fails=Example(symbol(variable("data"), operator("relu", "a", 0), operator("relu", "b", 0))),
    passes=Example(symbol(variable("data"), operator("relu", "a", 0), operator("relu", "b", 1))),
    fix="drops it, as MXNet does",
)
