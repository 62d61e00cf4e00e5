"""GS404: ``arg:`` in place of ``aux:``, or vice versa."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import batch_norm
from graphshare.checks.rule import CheckRule, Example, ExampleRecord, Violation
from graphshare.reports.model import Level

_CHANNELS = [ExampleRecord(f"arg:bn_{formal}", (3,)) for formal in ("gamma", "beta")]
_VAR = ExampleRecord("aux:bn_moving_var", (3,))


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield each record whose prefix does not fit its variable."""
    for record, key in context.misfiled_records:
        hint = "the graph decides: a variable that an operator writes into is auxiliary"
        yield Violation(f"{record.key!r} should be {key!r}", hint=hint, record=record.place)


RULE = CheckRule(
    code="GS404",
    name="wrong-side",
    level=Level.ERROR,
    summary="A record has the prefix arg: although its variable is an auxiliary state, or vice versa",
    why="load_checkpoint puts it into the wrong dictionary, and Module does not find it.",
    find=find,
    fails=Example(batch_norm(), (*_CHANNELS, ExampleRecord("arg:bn_moving_mean", (3,)), _VAR)),
    passes=Example(batch_norm(), (*_CHANNELS, ExampleRecord("aux:bn_moving_mean", (3,)), _VAR)),
    fix="rewrites the parameter file with the right key",
)
