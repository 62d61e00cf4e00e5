"""GS601: an ONNX model that cannot be read."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, relu


@check_rule(
    level="error",
    summary="The file is not a sound ONNX model: cut short, or a value is defined twice or by nothing",
    why="A name stands for one value, and a value is defined before it is read; runtimes refuse such a model.",
    fails=relu()[:-3],
    passes=relu(),
    format="onnx",
)
def find(context: CheckContext) -> Violations:
    """Yield the reasons that the reader gives."""
    for fault in context.reading.model_faults:
        place = f"{fault.path}: " if fault.path else ""
        yield Violation(f"{place}{fault.message}", ("graph",), hint=fault.hint, name=fault.node)
