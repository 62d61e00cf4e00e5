"""GS410: a record that MXNet cannot use."""

from graphshare.checks.record_values import find_unreadable
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
from graphshare.formats.params.mxnet_params import UNLOADABLE_DTYPES


@check_rule(
    level="error",
    summary="A record is empty, damaged, or of a dtype that MXNet does not load",
    why=(
        "MXNet fails when it first uses the record (unknown storage type: -1), or refuses the "
        "whole file (Unknown type enum)."
    ),
    fails=Example(dense(), (DENSE_RECORDS[0], ExampleRecord("arg:fc_bias", None))),
    passes=Example(dense(), DENSE_RECORDS),
)
def find(context: CheckContext) -> Violations:
    """Yield records that were never filled, have a dtype MXNet does not load, or cannot be decoded."""
    for record in context.records:
        if record.shape is None:
            yield Violation(
                "was never filled: it has no array",
                record=record.place,
                hint="initialize it before saving",
            )
        elif record.dtype in UNLOADABLE_DTYPES:
            message = f"is {record.dtype}, which MXNet 1.9.1 does not load"
            yield Violation(message, record=record.place, hint="convert the array to another dtype")
    for place, message in find_unreadable(context):
        yield Violation(message, record=place, hint="the file is damaged: fetch or save it again")
