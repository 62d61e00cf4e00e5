"""GS604: unneeded operators of an ONNX model."""

from graphshare.checks.rule import CheckContext, Violation, Violations, apply, check_rule, relu


@check_rule(
    level="warning",
    summary="No output needs an operator of an ONNX model",
    why="Runtimes remove it; often an output is missing, or a name is wrong.",
    fails=relu(apply("Relu", "x", "z")),
    passes=relu(),
)
def find(context: CheckContext) -> Violations:
    """Yield operators that no output needs."""
    needed = set(context.reachable)
    for node in context.graph.nodes:
        if node.op and node not in needed:
            hint = "remove it: `graphshare extract` keeps what the outputs need"
            yield Violation(f"no output needs {node.name!r} ({node.op})", node=node, hint=hint)
