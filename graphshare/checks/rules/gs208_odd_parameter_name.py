"""GS208: an operator whose parameters are not named alike."""

from graphshare.checks.graph_facts import find_parameters
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="note",
    summary="A parameter is not named like the other parameters of its operator",
    why="Parameter files are matched by name; an odd one is often a misspelling.",
    fails=dense().replace("fc_bias", "fv_bias"),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield operators whose own parameters have different stems."""
    users = context.consumers
    for node in context.reachable:
        if node.is_variable:
            continue
        named = context.facts(node).formals or ()
        for formals in _GROUPS:
            if not formals.issubset(named):
                continue
            own: dict[str, str] = {}
            for formal, variable in find_parameters(context, node, formals).items():
                # A shared parameter can be named after at most one of its operators.
                if len(users[variable]) == 1 and variable.name.endswith(formal):
                    own[formal] = variable.name
            stems = {name.removesuffix(formal) for formal, name in own.items()}
            if len(own) == len(formals) and len(stems) > 1:
                names = " and ".join(map(repr, own.values()))
                message = f"the parameters {names} of {node.name!r} are not named alike"
                yield Violation(message, node=node, hint="is one of them misspelt?")


_GROUPS = tuple(
    map(frozenset, (("weight", "bias"), ("gamma", "beta"), ("moving_mean", "moving_var")))
)
