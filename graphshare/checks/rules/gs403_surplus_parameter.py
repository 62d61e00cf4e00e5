"""GS403: a record without a variable."""

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
from graphshare.text.names import did_you_mean


@check_rule(
    level="warning",
    summary="The parameter file contains a record that the graph does not use",
    why="Module ignores it, Gluon's SymbolBlock refuses it unless ignore_extra is set; often a name is misspelled.",
    fails=Example(dense(), (*DENSE_RECORDS, ExampleRecord("arg:fc2_weight", (2, 3)))),
    passes=Example(dense(), DENSE_RECORDS),
)
def find(context: CheckContext) -> Violations:
    """Yield records of no variable."""
    if not context.has_graph:
        return
    missing = [name for name in context.expected_parameters if name not in context.records_by_name]
    for record in context.records:
        if record.name not in context.prefixes:
            hint = (
                did_you_mean(record.name, missing)
                or "remove it, or check that the file belongs to the graph"
            )
            yield Violation(
                f"no variable of the graph has the name {record.name!r}",
                hint=hint,
                record=record.place,
            )
