"""GS409: two records with one key."""

from graphshare.checks.graph_facts import find_repeats
from graphshare.checks.rule import (
    DENSE_RECORDS,
    CheckContext,
    Example,
    Violation,
    Violations,
    check_rule,
    dense,
)


@check_rule(
    level="warning",
    summary="Two records of the parameter file have the same key",
    why="mx.nd.load silently keeps the last.",
    fails=Example(dense(), (*DENSE_RECORDS, DENSE_RECORDS[1])),
    passes=Example(dense(), DENSE_RECORDS),
)
def find(context: CheckContext) -> Violations:
    """Yield repetitions."""
    for key, first, later in find_repeats([(record.key, record) for record in context.records]):
        message = f"has the key {key!r} of record {first.number}; MXNet keeps the last"
        yield Violation(message, hint="remove the wrong one", record=later.place)
