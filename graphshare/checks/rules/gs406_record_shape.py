"""GS406: a record's shape differs from the graph's."""

from collections.abc import Sequence

from graphshare.checks.rule import (
    DENSE_RECORDS,
    CheckContext,
    Example,
    ExampleRecord,
    Violation,
    Violations,
    check_rule,
    dense,
)
from graphshare.checks.shapes import find_shapes
from graphshare.errors import Fault
from graphshare.text.format import format_dims


@check_rule(
    level="error",
    summary="A parameter has another shape than the graph requires",
    why="Module refuses the file (expected ..., got ...).",
    fails=Example(dense(), (DENSE_RECORDS[0], ExampleRecord("arg:fc_bias", (3,)))),
    passes=Example(dense(), DENSE_RECORDS),
)
def find(context: CheckContext) -> Violations:
    """Yield records that contradict the shapes inferred from the graph alone."""
    if context.params is None:
        return
    inferred = context.once(find_shapes)
    if inferred is None or inferred.alone is None or isinstance(inferred.alone, Fault):
        return
    hint = "the file belongs to another version of the graph"
    for node, record in inferred.records.items():
        expected, shape = inferred.alone.shapes[node][0], record.shape
        if expected is None or shape is None or _fits(shape, expected):
            continue
        message = f"is {format_dims(shape)}, but the graph requires {format_dims(expected)}"
        yield Violation(message, hint=hint, record=record.place, name=node.name)


def _fits(shape: Sequence[int], expected: Sequence[int | None]) -> bool:
    if len(shape) != len(expected):
        return False
    return all(wanted in (None, size) for size, wanted in zip(shape, expected, strict=True))
