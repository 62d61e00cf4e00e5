"""GS309: a shape for a missing variable."""

from collections import Counter

from graphshare.checks.rule import CheckContext, Example, Violation, Violations, check_rule, dense
from graphshare.text.names import did_you_mean, find_numbered


@check_rule(
    level="error",
    summary="A shape is given for a variable that the graph does not have",
    why="Module refuses such a name: the input is not found in list_arguments.",
    fails=Example(dense(), shapes={"date": (1, 3)}),
    passes=Example(dense(), shapes={"data": (1, 3)}),
)
def find(context: CheckContext) -> Violations:
    """Yield names of ``--shape`` that no variable has."""
    if not context.has_graph or not context.given_shapes:
        return
    known = [variable.name for variable in context.name_lists.variables]
    same = {name: [name] * count for name, count in Counter(known).items()}
    for name in context.given_shapes:
        if name not in known and find_numbered(name, same) is None:
            message = f"a shape is given for {name!r}, but no variable has this name"
            hint = did_you_mean(name, known) or f"the variables are {', '.join(known[:8])}"
            yield Violation(message, hint=hint, name=name)
