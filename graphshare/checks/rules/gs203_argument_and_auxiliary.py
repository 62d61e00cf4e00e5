"""GS203: one name for an argument and an auxiliary state."""

from graphshare.checks.rule import CheckContext, Violation, Violations, batch_norm, check_rule


@check_rule(
    level="warning",
    summary="An argument and an auxiliary state have the same name",
    why="Module keeps two arrays, Gluon one, and bind with the default backend confuses them.",
    fails=batch_norm(mean="bn_beta"),
    passes=batch_norm(),
)
def find(context: CheckContext) -> Violations:
    """Yield the auxiliary states."""
    arguments = set(context.name_lists.arguments)
    for variable, owner in context.variables:
        if variable.auxiliary and variable.name in arguments and variable.name:
            message = f"{variable.name!r} is an argument and an auxiliary state"
            yield Violation(message, node=owner, hint="rename one of the two")
