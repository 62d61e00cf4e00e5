"""GS607: missing external data."""

import os

from graphshare.checks.rule import (
    CheckContext,
    Level,
    Violation,
    Violations,
    apply,
    check_rule,
    initializer,
    model,
    value,
)
from graphshare.formats.params.records import WEIGHTS_HINT


@check_rule(
    level="error",
    summary="External data of a tensor does not exist, or its file is too short",
    why="The model cannot be loaded: its weights are in another file that was not copied with it, or not as a whole. "
    "Data behind a link, as in the folders of model hubs, is a warning: onnxruntime loads it, onnx does not.",
    fails=model(
        apply("Add", "x w", "y"),
        initializer("w", location="w.bin"),
        value(11, "x", 2),
        value(12, "y", 2),
    ),
    passes=model(apply("Add", "x w", "y"), initializer("w"), value(11, "x", 2), value(12, "y", 2)),
)
def find(context: CheckContext) -> Violations:
    """Yield files that do not exist or are too short, changed pools, and files that are links."""
    # Start-up
    from graphshare.formats.onnx.external import find_missing_data, list_outside
    from graphshare.formats.onnx.pool import find_changed_pools

    is_whole = True
    for missing in find_missing_data(context.graph):
        is_whole = False
        message = f"the data of {missing.owners} is missing: {missing.reason}"
        yield Violation(message, node=missing.node, hint=WEIGHTS_HINT)
    if is_whole:
        for fault in find_changed_pools(context.graph):
            yield Violation(fault.message, ("graph",), hint=fault.hint)
    for path in {place.path: None for _, _, place in list_outside(context.graph)}:
        if os.path.islink(path) or (os.path.isfile(path) and os.stat(path).st_nlink > 1):
            message = f"external data is in {path}, which is a link: onnx.load and ONNX's checker refuse it"
            yield Violation(
                message, ("graph",), hint="copy the file in place of the link", level=Level.WARNING
            )
