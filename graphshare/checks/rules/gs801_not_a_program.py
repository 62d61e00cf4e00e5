"""GS801: an unreadable program of Paddle."""

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    parameter,
    program,
    step,
)


@check_rule(
    level="error",
    summary="The file is not a sound Paddle program: cut short, of no released version, or a value is used too early",
    why="Paddle refuses such a file, with a text that does not name the place.",
    fails=program(step("1.relu", "1", 2), parameter("w", 1)),
    passes=program(parameter("w", 1), step("1.relu", "1", 2)),
)
def find(context: CheckContext) -> Violations:
    """Yield the reader's reasons."""
    yield from map(Violation.of_fault, context.reading.model_faults)
