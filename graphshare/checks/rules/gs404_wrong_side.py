"""GS404: ``arg:`` in place of ``aux:``, or vice versa."""

from graphshare.checks.rule import (
    CheckContext,
    Example,
    ExampleRecord,
    Violation,
    Violations,
    batch_norm,
    check_rule,
)

_CHANNELS = [ExampleRecord(f"arg:bn_{formal}", (3,)) for formal in ("gamma", "beta")]
_VAR = ExampleRecord("aux:bn_moving_var", (3,))


@check_rule(
    level="error",
    summary="A record has the prefix arg: although its variable is an auxiliary state, or vice versa",
    why="load_checkpoint puts it into the wrong dictionary, and Module does not find it.",
    fails=Example(batch_norm(), (*_CHANNELS, ExampleRecord("arg:bn_moving_mean", (3,)), _VAR)),
    passes=Example(batch_norm(), (*_CHANNELS, ExampleRecord("aux:bn_moving_mean", (3,)), _VAR)),
    fix="rewrites the parameter file with the right key",
)
def find(context: CheckContext) -> Violations:
    """Yield records whose prefix does not fit."""
    for record, key in context.misfiled_records:
        hint = "the graph decides: a variable that an operator writes into is auxiliary"
        yield Violation(f"{record.key!r} should be {key!r}", hint=hint, record=record.place)
