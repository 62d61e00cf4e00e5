"""GS609: repeated, damaged or misused functions."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    field,
    function,
    relu,
)
from graphshare.text.format import format_count

_OPSET = field(8, field(1, "own") + field(2, 1))


@check_rule(
    level="error",
    summary="Two functions of an ONNX model have one name, or one is not sound, or is called with more than it takes",
    why="Runtimes refuse the model, or compute the wrong one of the two.",
    fails=relu(more=_OPSET + function("f") + function("f")),
    passes=relu(more=_OPSET + function("f") + function("g")),
)
def find(context: CheckContext) -> Violations:
    """Yield functions with the name of an earlier one, unreadable functions, and calls that do not
    fit.
    """
    # Start-up
    from graphshare.formats.onnx.statements import key_of_call, name_function, read_functions

    sizes: dict[tuple[str, str, str], tuple[int, int]] = {}
    for i, (key, stored) in enumerate(read_functions(context.graph)):
        name, body = name_function(key), stored.function
        if key in sizes:
            hint = "give one of them another name, and those that call it"
            yield Violation(f"two functions are called {name!r}", ("functions", i), hint=hint)
        if body is None:
            yield Violation(f"function {name!r} is not sound: {stored.fault}", ("functions", i))
        else:
            sizes[key] = (
                sum(node.details.holds_value is False for node in body.graph.nodes),
                len(body.graph.heads),
            )
    for steps, node in context.operators() if sizes else ():
        key, details = key_of_call(node), node.details
        counts = (len(node.inputs) + len(details.absent), len(details.outputs))
        for what, count, most in zip(
            ("input", "output"), counts, sizes.get(key, counts), strict=True
        ):
            if count > most:
                message = f"has {format_count(count, what)}, and the function {name_function(key)!r} has {most}"
                yield Violation(message, steps, node)
