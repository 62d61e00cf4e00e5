"""GS603: initializers that nothing reads."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    apply,
    check_rule,
    initializer,
    model,
    relu,
    value,
)


@check_rule(
    level="warning",
    summary="Nothing reads an initializer",
    why="It makes the file larger, runtimes drop it with a warning, and often a name is wrong.",
    fails=relu(initializer("w")),
    passes=model(apply("Add", "x w", "y"), initializer("w"), value(11, "x", 2), value(12, "y", 2)),
)
def find(context: CheckContext) -> Violations:
    """Yield initializers that neither an operator nor an output uses."""
    # Start-up
    from graphshare.checks.onnx_facts import is_constant

    used = {entry.node for entry in context.graph.heads}
    for node in context.graph.nodes:
        used.update(entry.node for entry in node.inputs)
    for node in context.graph.variables():
        if node not in used and node.details.holds_value:
            hint = "remove it: `graphshare extract` keeps what the outputs need"
            what = "Constant" if is_constant(node) else "initializer"
            yield Violation(f"no operator reads the {what} {node.name!r}", node=node, hint=hint)
