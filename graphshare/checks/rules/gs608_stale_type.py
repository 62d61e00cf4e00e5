"""GS608: statements on missing values."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, relu, value


@check_rule(
    level="note",
    summary="The file has value_info or an annotation of a value that does not exist",
    why="An operator was removed or renamed and left it behind; a value that gets this name later gets the type too.",
    fails=relu(value(13, "z", 2)),
    passes=relu(value(13, "y", 2)),
)
def find(context: CheckContext) -> Violations:
    """Yield messages on values that no operator, input or initializer defines."""
    # Start-up
    from graphshare.checks.onnx_facts import list_stale

    for part, message in list_stale(context.graph):
        yield Violation(
            f"{part} of {message.name!r}, and no value has this name", ("graph", part, message.rank)
        )
