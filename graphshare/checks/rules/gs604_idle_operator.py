"""GS604: operators of an ONNX model that no output needs."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import apply, relu
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each operator that no output of the graph needs."""
    needed = set(context.reachable) if context.has_graph else set()
    for node in context.graph.nodes if context.has_graph else ():
        if node.op and node not in needed:
            hint = "remove it: `graphshare extract` keeps what the outputs need"
            yield Violation(f"no output needs {node.name!r} ({node.op})", context.node_steps(node), node, hint=hint)


RULE = CheckRule(
    code="GS604",
    name="idle-operator",
    level=Level.WARNING,
    summary="No output needs an operator of an ONNX model",
    why="Runtimes remove it; often an output is missing, or a name is wrong.",
    find=find,
    fails=Example(relu(apply("Relu", "x", "z"))),
    passes=Example(relu()),
    format="onnx",
)
