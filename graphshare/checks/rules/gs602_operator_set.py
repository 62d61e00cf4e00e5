"""GS602: an operator set that is not imported."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, relu
from graphshare.ir.graph import Node
from graphshare.reports.model import Steps


@check_rule(
    level="error",
    summary="The model, or a function, imports no operator set for an operator",
    why="The version of the operator set decides what an operator means; runtimes refuse a model without it.",
    fails=relu(opset=0),
    passes=relu(),
)
def find(context: CheckContext) -> Violations:
    """Yield the operators of each domain that the model, or their function, does not import."""
    # Start-up
    from graphshare.formats.onnx.statements import list_calls, name_function, read_functions
    from graphshare.formats.onnx.stored import get_source

    known = get_source(context.graph).opsets
    missing: dict[str, tuple[Steps, Node]] = {}
    for steps, node in context.operators():
        if node.details.domain not in known:
            missing.setdefault(node.details.domain, (steps, node))
    for domain, (steps, node) in missing.items():
        message = f"{node.op} is of the operator set {domain or 'ai.onnx'}, which the model does not import"
        yield Violation(message, steps, node, hint="add it to opset_import with its version")
    for i, (key, stored) in enumerate(read_functions(context.graph)):
        name = name_function(key)
        opsets = stored.function.opsets if stored.function is not None else {}
        for domain in dict.fromkeys(called[0] for called in list_calls(stored.nodes)):
            if domain in opsets:
                continue
            message = f"function {name!r} uses the operator set {domain or 'ai.onnx'}, which it does not import"
            yield Violation(
                message,
                ("functions", i),
                hint="add it to opset_import of the function with its version",
            )
