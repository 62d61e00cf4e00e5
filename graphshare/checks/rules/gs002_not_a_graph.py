"""GS002: JSON that is not a graph."""

from graphshare.checks.examples import dense
from graphshare.checks.rule import CheckContext, Example, Level, Violation, Violations, check_rule


@check_rule(
    level=Level.ERROR,
    summary="A required key is missing or a value has the wrong type",
    why="MXNet stops at the first such place. Attribute values are strings, numbers too; ids are integers from 0.",
    fails=Example(dense().replace('"num_hidden": "2"', '"num_hidden": 2')),
    passes=Example(dense()),
)
def find(context: CheckContext) -> Violations:
    """Yield every place that does not match the schema."""
    for fault in context.reading.schema_faults:
        yield Violation.of_fault(fault)
