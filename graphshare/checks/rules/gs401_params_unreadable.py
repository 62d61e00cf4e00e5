"""GS401: the parameter file cannot be read."""

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
    level="error",
    summary="The parameter file is damaged or of another format",
    why="MXNet only reports: Invalid NDArray file format.",
    fails=Example(dense(), DENSE_RECORDS, damaged=True),
    passes=Example(dense(), DENSE_RECORDS),
)
def find(context: CheckContext) -> Violations:
    """Yield the reader's reasons."""
    for fault in context.params_faults:
        yield Violation(fault.message, hint=fault.hint, record=fault.path)
