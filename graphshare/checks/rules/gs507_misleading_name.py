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
            if formal not in _USE_BY_FORMAL:
                continue
            name_use = next(
                (use for end, use in _USE_BY_ENDING.items() if entry.node.name.endswith(f"_{end}")),
                None,
            )
            is_misleading = name_use is not None and name_use != _USE_BY_FORMAL[formal]
            # A variable with several uses can have the name of only one of them.
            if entry.node.is_variable and is_misleading and len(context.consumers[entry.node]) == 1:
                message = f"{entry.node.name!r} is the {formal} of {node.name!r}, but its name suggests {name_use}"
                steps = (*context.node_steps(node), "inputs", k)
                yield Violation(
                    message, steps, entry.node, hint="are two inputs, or two names, swapped?"
                )
