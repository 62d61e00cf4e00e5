"""GS406: a record's shape differs from the graph's."""

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
    inferred = context.once(find_shapes) if context.params is not None else None
    alone = inferred.alone if inferred is not None else None
    if inferred is None or alone is None or isinstance(alone, Fault):
        return
    for node, record in inferred.records.items():
        expected, shape = alone.shapes[node][0], record.shape
        if expected is None or shape is None:
            continue
        if len(expected) != len(shape) or any(
            a is not None and a != b for a, b in zip(expected, shape, strict=True)
        ):
            hint = "the file belongs to another version of the graph"
            yield Violation(
                f"is {format_dims(shape)}, but the graph requires {format_dims(expected)}",
                hint=hint,
                record=record.place,
                name=node.name,
            )
