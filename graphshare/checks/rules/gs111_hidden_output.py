"""GS111: an output that has no name."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.ir.graph import Entry
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield every input and head that takes one."""
    for steps, graph in context.graphs:
        for i, node in enumerate(graph.nodes):
            for k, entry in enumerate(node.inputs):
                if entry.index and _is_hidden(context, entry):
                    yield Violation(_message(entry), (*steps, "nodes", i, "inputs", k), node, hint=_HINT)
        for k, entry in enumerate(graph.heads):
            if entry.index and _is_hidden(context, entry):
                yield Violation(_message(entry), (*steps, "heads", k), hint=_HINT)


_HINT = "take output 0, or set the attribute that makes it visible (output_mean_var, ret_typ)"


def _is_hidden(context: CheckContext, entry: Entry) -> bool:
    outputs = None if entry.node.is_variable else context.facts(entry.node).outputs
    return outputs is not None and outputs.visible <= entry.index < outputs.total


def _message(entry: Entry) -> str:
    return f"takes output {entry.index} of {entry.node.name!r} ({entry.node.op}), which is internal to {entry.node.op}"


RULE = CheckRule(
    code="GS111",
    name="hidden-output",
    level=Level.WARNING,
    summary="An input or a head takes an internal output of its operator",
    why="It is scratch space, or filled in training only; no MXNet API composes such a graph, but a file can contain it.",
    find=find,
    fails=Example(symbol(variable("data"), operator("Pooling", "pool", 0, kernel="(2, 2)"), operator("relu", "a", (1, 1)))),
    passes=Example(symbol(variable("data"), operator("Pooling", "pool", 0, kernel="(2, 2)"), operator("relu", "a", (1, 0)))),
)
