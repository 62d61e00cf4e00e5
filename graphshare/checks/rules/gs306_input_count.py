"""GS306: too few or too many inputs."""

from graphshare.checks.graph_facts import find_wrong_input_counts
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense
from graphshare.text.format import format_count


@check_rule(
    level="error",
    summary="An operator has too few or too many inputs",
    why="MXNet loads the file and fails when shapes are inferred.",
    fails=dense().replace("[[0, 0, 0], [1, 0, 0], [2, 0, 0]]", "[[0, 0, 0], [1, 0, 0]]"),
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield operators whose inputs are not as many as their attributes require."""
    for steps, node, formals in find_wrong_input_counts(context):
        count = len(node.inputs)
        names = ", ".join(formals[:8]) or "none"
        message = f"{node.op} has {format_count(count, 'input')}, but its attributes ask for {len(formals)} ({names})"
        hint = ""
        if len(formals) > count:
            hint = "only files before mxnet_version 0.9, or without one, may omit inputs"
        yield Violation(message, (*steps, "inputs"), node, hint=hint)
