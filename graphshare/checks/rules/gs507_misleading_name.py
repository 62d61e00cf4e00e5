"""GS507: a name that suggests another use."""

from graphshare.checks.rule import CheckContext, Violation, Violations, batch_norm, check_rule

# MXNet has two names for statistics.
_USE_BY_ENDING = {
    "weight": "weight",
    "bias": "bias",
    "gamma": "gamma",
    "beta": "beta",
    "moving_mean": "mean",
    "running_mean": "mean",
    "moving_var": "variance",
    "running_var": "variance",
}
_USE_BY_FORMAL = {**_USE_BY_ENDING, "mean": "mean", "var": "variance"}


@check_rule(
    level="warning",
    summary="A parameter is used for something other than its name suggests",
    why="Inputs or names are swapped: each gets the other's values, and initializers depend on the name.",
    fails=batch_norm(mean="bn_moving_var", var="bn_moving_mean"),
    passes=batch_norm(),
)
def find(context: CheckContext) -> Violations:
    """Yield parameters used for something other than their names suggest."""
    for node in context.reachable:
        for k, (formal, entry) in enumerate(context.list_named_inputs(node)):
            source = entry.node
            if formal not in _USE_BY_FORMAL or not source.is_variable:
                continue
            suggested = _find_suggested_use(source.name)
            if suggested in (None, _USE_BY_FORMAL[formal]):
                continue
            # A variable with several uses can have the name of only one of them.
            if len(context.consumers[source]) == 1:
                message = f"{source.name!r} is the {formal} of {node.name!r}, but its name suggests {suggested}"
                steps = (*context.node_steps(node), "inputs", k)
                yield Violation(
                    message, steps, source, hint="are two inputs, or two names, swapped?"
                )


def _find_suggested_use(name: str) -> str | None:
    for ending, use in _USE_BY_ENDING.items():
        if name.endswith(f"_{ending}"):
            return use
    return None
