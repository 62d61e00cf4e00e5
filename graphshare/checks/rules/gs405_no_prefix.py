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
    bare = [record for record in context.records if not record.prefix]
    if bare and context.params is not None and context.params.format == "params":
        subject = (
            "all keys have"
            if len(bare) == len(context.records)
            else f"{len(bare)} of {len(context.records)} keys have"
        )
        hint = (
            "--fix adds them"
            if context.bare_records
            else "save with arg: and aux: (Gluon: net.export)"
        )
        yield Violation(
            f"{subject} neither arg: nor aux:, {bare[0].key!r} first",
            hint=hint,
            record=bare[0].place,
        )
