"""GS607: external data that is not there."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.onnx_examples import apply, initializer, model, value
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each tensor whose file of data does not exist or is too short."""
    from graphshare.formats.onnx.external import find_missing_data  # start-up: symbol files need no other format

    if context.has_graph:
        for found in find_missing_data(context.graph):
            message = f"the data of {found.owner} is missing: {found.reason}"
            hint = "copy the file of the weights beside the model"
            yield Violation(message, context.node_steps(found.node), found.node, hint=hint)


RULE = CheckRule(
    code="GS607",
    name="external-data",
    level=Level.ERROR,
    summary="External data of a tensor does not exist, or its file is too short",
    why="The model cannot be loaded: its weights are in another file that was not copied with it, or not as a whole.",
    find=find,
    fails=Example(model(apply("Add", "x w", "y"), initializer("w", location="w.bin"), value(11, "x", 2), value(12, "y", 2))),
    passes=Example(model(apply("Add", "x w", "y"), initializer("w"), value(11, "x", 2), value(12, "y", 2))),
    format="onnx",
)
