"""GS010: a suppression that names no rule."""

from graphshare.checks.graph_facts import KEY, is_known_code, read_suppressed_codes
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="warning",
    summary="A node suppresses a rule that does not exist",
    why="The suppression is probably misspelled and has no effect.",
    fails=dense().replace(
        '"num_hidden": "2"', '"__graphshare_ignore__": "GS9999", "num_hidden": "2"'
    ),
    passes=dense().replace(
        '"num_hidden": "2"', '"__graphshare_ignore__": "GS504", "num_hidden": "2"'
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield suppressed codes of no rule."""
    hint = "codes are listed by `graphshare check --list`"
    for steps, node in context.nodes():
        for code in read_suppressed_codes(node):
            if not is_known_code(code):
                message = f"{KEY} names {code!r}, which is not a rule"
                yield Violation(message, steps, node, hint=hint)
