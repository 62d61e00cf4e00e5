"""GS412: stray bytes in a parameter file."""

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
from graphshare.text.format import format_count


@check_rule(
    level="warning",
    summary="The parameter file contains bytes that MXNet does not write",
    why="MXNet ignores them or fails to decode a name; the file is damaged or from another program.",
    fails=Example(dense(), (*DENSE_RECORDS, ExampleRecord("arg:\0", (2,)))),
    passes=Example(dense(), DENSE_RECORDS),
)
def find(context: CheckContext) -> Violations:
    """Yield bytes after the last name, headers that MXNet does not write, and undecodable names."""
    file = context.params
    if file is None:
        return
    if file.trailing:
        yield Violation(
            f"has {format_count(file.trailing, 'byte')} after the last name",
            record="",
            hint="`graphshare params convert` drops them",
        )
    if file.reserved:
        yield Violation(
            f"has {file.reserved:#x} in the reserved word of its header, where MXNet writes 0",
            record="",
        )
    for record in context.records:
        # Bytes that are not UTF-8 were read as lone surrogates.
        if "\0" in record.key:
            message = "has a name with a NUL"
        elif any("\udc80" <= c <= "\udcff" for c in record.key):
            message = "has a name with bytes that are not UTF-8"
        else:
            continue
        hint = "mx.nd.load cannot decode the name, or truncates it"
        yield Violation(message, record=record.place, hint=hint)
