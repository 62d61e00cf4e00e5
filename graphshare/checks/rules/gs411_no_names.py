"""GS411: a parameter file without names."""

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
    summary="The parameter file has no names",
    why="Arrays cannot be matched with parameters; load_checkpoint and SymbolBlock.imports fail.",
    fails=Example(dense(), DENSE_RECORDS, named=False),
    passes=Example(dense(), DENSE_RECORDS),
)
def find(context: CheckContext) -> Violations:
    """Yield the file."""
    if context.params is not None and context.params.records and not context.params.named:
        hint = "save it with names (mx.nd.save of a dict)"
        yield Violation(
            "is a list of arrays without names, so no array has a variable", record="", hint=hint
        )
