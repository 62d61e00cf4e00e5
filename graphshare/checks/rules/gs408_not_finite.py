"""GS408: NaN or infinity among the parameters."""

from graphshare.checks.record_values import find_non_finite
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
from graphshare.text.format import format_count


@check_rule(
    level="error",
    summary="A parameter contains NaN or infinity",
    why="One is enough to make every output NaN.",
    fails=Example(
        dense(), (DENSE_RECORDS[0], ExampleRecord("arg:fc_bias", (2,), value=float("nan")))
    ),
    passes=Example(dense(), DENSE_RECORDS),
)
def find(context: CheckContext) -> Violations:
    """Yield arrays with such values."""
    for place, count, size in find_non_finite(context):
        hint = "training diverged, or the file is damaged"
        yield Violation(
            f"contains NaN or infinity: {count:,} of {format_count(size, 'value')}",
            record=place,
            hint=hint,
        )
