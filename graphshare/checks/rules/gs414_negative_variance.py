"""GS414: a variance below zero."""

from graphshare.analysis.name_lists import list_implied_variables
from graphshare.checks.record_values import find_negative
from graphshare.checks.rule import (
    CheckContext,
    Example,
    ExampleRecord,
    Violation,
    Violations,
    batch_norm,
    check_rule,
)

_REST = tuple(ExampleRecord(f"{kind}:bn_{formal}", (3,)) for kind, formal in (("arg", "gamma"), ("arg", "beta"),
                                                                              ("aux", "moving_mean")))  # fmt: skip


@check_rule(
    level="error",
    summary="A moving variance is negative",
    why="BatchNorm takes its square root: the outputs are NaN.",
    fails=Example(batch_norm(), (*_REST, ExampleRecord("aux:bn_moving_var", (3,), value=-1.0))),
    passes=Example(batch_norm(), (*_REST, ExampleRecord("aux:bn_moving_var", (3,)))),
)
def find(context: CheckContext) -> Violations:
    """Yield moving variances with a negative value."""
    if context.params is None:
        return
    names: dict[str, None] = {}
    for implied in list_implied_variables(context.graph):
        if implied.formal == "moving_var":
            names[implied.name] = None
    for node in context.reachable:
        for formal, entry in context.list_named_inputs(node):
            if formal == "moving_var" and entry.node.is_variable:
                names[entry.node.name] = None
    message = "is a moving variance and contains values below zero"
    hint = "the file is damaged, or mean and variance are swapped"
    for place, name in find_negative(context, names):
        yield Violation(message, record=place, name=name, hint=hint)
