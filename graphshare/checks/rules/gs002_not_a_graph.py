"""GS002: JSON that is not a graph."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="error",
    summary="A required key is missing or a value has the wrong type",
    why="MXNet stops at the first such place. Attribute values are strings, numbers too; ids are integers from 0.",
    fails=dense().replace('"num_hidden": "2"', '"num_hidden": 2'),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield every place that does not match the schema."""
    for fault in context.reading.schema_faults:
        yield Violation.of_fault(fault)
