"""GS611: a model that ONNX's own checker rejects."""

import re

from graphshare.checks.rule import (
    CheckContext,
    Level,
    Violation,
    Violations,
    apply,
    check_rule,
    model,
    value,
)
from graphshare.errors import RefusedError, install_command

_FRAME = re.compile(r"\[\w+Error\] (Inference error\(s\): )?")
# The checker and its shape inference name a node in different ways.
_NODE = re.compile(r"node name: (.+?)\)|Name: (.+?) OpType")


def _add(size: int) -> bytes:
    return model(
        apply("Add", "x w", "y"), value(11, "x", 2), value(11, "w", size), value(12, "y", 2)
    )


@check_rule(
    level="error",
    summary=(
        "ONNX's checker refuses the model: operators get inputs that do not fit, or attributes "
        "that they do not have"
    ),
    why=(
        "Runtimes refuse such a model, or compute something else. The checker runs where the onnx "
        "package is installed (else a "
        "note says so), with its inference of types, and only where no other rule finds an error."
    ),
    fails=_add(3),
    passes=_add(2),
    runs_after_errors=False,
)
def find(context: CheckContext) -> Violations:
    """Yield the checker's complaint, or a note that it is not installed."""
    if not context.has_graph:
        return
    # Start-up
    from graphshare.formats.onnx.inference import is_installed
    from graphshare.formats.onnx.value_types import find_refusal

    if not is_installed():
        message = "the onnx package is not installed: ONNX's checker did not run, and types are not inferred"
        yield Violation(message, ("graph",), hint=install_command("onnx"), level=Level.NOTE)
        return
    try:
        refusal = find_refusal(context.graph)
    except RefusedError as error:  # a limit, or a crash of native code
        yield Violation(error.faults[0].message, ("graph",), hint=error.faults[0].hint)
        return
    if refusal:
        place = _NODE.search(refusal)
        label = (place[1] or place[2]) if place is not None else None
        steps, node = next(
            ((s, n) for s, n in context.operators() if label and n.details.label == label),
            (("graph",), None),
        )
        # The rest is the place, or faults caused by the first
        text = _FRAME.sub("", refusal).strip().split("\n")[0]
        yield Violation(f"ONNX's checker refuses the model: {text}", steps, node, name=label)
