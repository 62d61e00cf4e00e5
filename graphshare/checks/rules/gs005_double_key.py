"""GS005: a repeated key."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="error",
    summary="A JSON object has the same key twice",
    why="MXNet and this tool use the last value, other readers the first or neither: the file is ambiguous.",
    fails=dense().replace('"name": "fc_bias"', '"name": "fc_bia", "name": "fc_bias"'),
    passes=dense(),
    fix="keeps the last, as MXNet does",
)
def find(context: CheckContext) -> Violations:
    """Yield every repeated key."""
    for steps in context.reading.duplicate_keys:
        yield Violation(
            f"the key {steps[-1]!r} occurs twice; the last one counts",
            steps,
            hint="remove the wrong one",
        )
