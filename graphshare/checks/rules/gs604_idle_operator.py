"""GS604: operators of an ONNX model that no output needs."""

from graphshare.checks.examples import apply, relu
from graphshare.checks.rule import CheckContext, Example, Level, Violation, Violations, check_rule


@check_rule(
    level=Level.WARNING,
    summary="No output needs an operator of an ONNX model",
    why="Runtimes remove it; often an output is missing, or a name is wrong.",
    fails=Example(relu(apply("Relu", "x", "z"))),
    passes=Example(relu()),
    format="onnx",
)
def find(context: CheckContext) -> Violations:
    """Yield each operator that no output of the graph needs."""
    needed = set(context.reachable)
    for node in context.graph.nodes:
        if node.op and node not in needed:
            hint = "remove it: `graphshare extract` keeps what the outputs need"
            yield Violation(f"no output needs {node.name!r} ({node.op})", node=node, hint=hint)
