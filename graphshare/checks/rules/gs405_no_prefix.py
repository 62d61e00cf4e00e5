"""GS405: keys without ``arg:`` and ``aux:``."""

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


@check_rule(
    level="warning",
    summary="Keys of the parameter file have neither arg: nor aux:",
    why="load_checkpoint fails on them (not enough values to unpack); SymbolBlock.imports accepts them.",
    fails=Example(dense(), (ExampleRecord("fc_weight", (2, 3)), ExampleRecord("fc_bias", (2,)))),
    passes=Example(dense(), DENSE_RECORDS),
    fix="gives each record of a variable its prefix, which the graph decides",
)
def find(context: CheckContext) -> Violations:
    """Yield the first such key, with their number."""
    if context.params is None or context.params.format != "params":
        return
    bare = [record for record in context.records if not record.prefix]
    if not bare:
        return
    count = f"{len(bare)} of {len(context.records)} keys have"
    if len(bare) == len(context.records):
        count = "all keys have"
    hint = "save with arg: and aux: (Gluon: net.export)"
    if context.bare_records:
        hint = "--fix adds them"
    message = f"{count} neither arg: nor aux:, {bare[0].key!r} first"
    yield Violation(message, hint=hint, record=bare[0].place)
