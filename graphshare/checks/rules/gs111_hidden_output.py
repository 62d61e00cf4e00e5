"""GS111: an output that no name reaches."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.ir.graph import Entry
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """Every input and head that takes one."""
    for steps, graph in subject.graphs:
        for i, node in enumerate(graph.nodes):
            for k, entry in enumerate(node.inputs):
                if entry.index and _is_hidden(subject, entry):
                    yield Found(_message(entry), (*steps, "nodes", i, "inputs", k), node, hint=_HINT)
        for k, entry in enumerate(graph.heads):
            if entry.index and _is_hidden(subject, entry):
                yield Found(_message(entry), (*steps, "heads", k), hint=_HINT)


_HINT = "did output 0 want to be taken, or an attribute (output_mean_var, ret_typ) to be set?"


def _is_hidden(subject: Subject, entry: Entry) -> bool:
    outputs = None if entry.node.is_variable else subject.facts(entry.node).outputs
    return outputs is not None and outputs.visible <= entry.index < outputs.total


def _message(entry: Entry) -> str:
    return f"takes output {entry.index} of {entry.node.name!r} ({entry.node.op}), which {entry.node.op} keeps for itself"


RULE = Rule(
    code="GS111",
    name="hidden-output",
    level=Level.WARNING,
    summary="An input or a head takes an output that its operator keeps for itself",
    why="It is scratch space, or holds something in training only; no MXNet API composes such a graph, but a file can.",
    find=find,
    fails=Example(symbol(variable("data"), operator("Pooling", "pool", 0, kernel="(2, 2)"), operator("relu", "a", (1, 1)))),
    passes=Example(symbol(variable("data"), operator("Pooling", "pool", 0, kernel="(2, 2)"), operator("relu", "a", (1, 0)))),
)
