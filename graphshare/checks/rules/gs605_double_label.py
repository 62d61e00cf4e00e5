"""GS605: two operators of an ONNX model with one name."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    apply,
    check_rule,
    model,
    value,
)
from graphshare.ir.graph import Node


@check_rule(
    level="error",
    summary="Two operators of an ONNX model have one name",
    why="onnxruntime refuses the model, and error messages that name the operator are ambiguous.",
    fails=model(
        apply("Relu", "x", "z", name="a"),
        apply("Relu", "z", "y", name="a"),
        value(11, "x", 2),
        value(12, "y", 2),
    ),
    passes=model(
        apply("Relu", "x", "z", name="a"),
        apply("Relu", "z", "y"),
        value(11, "x", 2),
        value(12, "y", 2),
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield repetitions."""
    for _, graph in context.graphs:
        first: dict[str, Node] = {}
        for node, label in graph.source.list_labels(graph).items():
            if first.setdefault(label, node) is not node:
                message = f"{node.op} and {first[label].op} are both called {label!r}"
                yield Violation(
                    message,
                    context.node_steps(node) or ("graph",),
                    node,
                    hint="give one of them another name",
                )
