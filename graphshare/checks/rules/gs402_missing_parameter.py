"""GS402: a parameter without a record."""

from graphshare.checks.rule import (
    DENSE_RECORDS,
    CheckContext,
    Example,
    Violation,
    Violations,
    check_rule,
    dense,
)
from graphshare.text.names import did_you_mean


@check_rule(
    level="error",
    summary="The parameter file does not contain a parameter of the graph",
    why="Module.set_params and Gluon's SymbolBlock refuse the file: ... is not presented.",
    fails=Example(dense(), DENSE_RECORDS[:1]),
    passes=Example(dense(), DENSE_RECORDS),
)
def find(context: CheckContext) -> Violations:
    """Yield parameters and auxiliary states without a record."""
    if context.params is None:
        return
    if context.params.records and not context.params.named:
        return
    unused = [name for name in context.records_by_name if name not in context.prefixes]
    for name, node in context.expected_parameters.items():
        if name not in context.records_by_name:
            hint = did_you_mean(name, unused) or "is it the right file?"
            message = f"the parameter file does not contain {name!r}"
            yield Violation(message, node=node, hint=hint, name=name)
