"""GS303: an attribute that the operator does not take."""

from graphshare.checks.graph_facts import find_attribute_faults, find_refused_hidden_keys
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense
from graphshare.ops.registry import find_signature
from graphshare.text.names import did_you_mean

_FREE = "keys that begin and end with two underscores are free"


@check_rule(
    level="error",
    summary="An operator has an attribute that it does not take",
    why="MXNet refuses the file: Cannot find argument.",
    fails=dense().replace('"num_hidden": "2"', '"num_hidden": "2", "no_bais": "False"'),
    passes=dense().replace('"num_hidden": "2"', '"num_hidden": "2", "no_bias": "False"'),
)
def find(context: CheckContext) -> Violations:
    """Yield such attributes."""
    for steps, node, fault in find_attribute_faults(context, "unknown"):
        signature = find_signature(node)
        names: list[str] = []
        if signature is not None:
            names = [parameter.name for parameter in signature.parameters or ()]
        yield Violation(fault.message, steps, node, hint=did_you_mean(fault.key, names) or _FREE)
    for steps, node, key in find_refused_hidden_keys(context):
        message = f"unknown attribute {key!r}: no input of that name is a variable"
        yield Violation(message, steps, node, hint=_FREE)
