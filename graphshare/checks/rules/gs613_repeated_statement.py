"""GS613: repeated statements on a value, or metadata keys."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, relu, value


@check_rule(
    level="note",
    summary="A list of the file has several entries of one value or key",
    why="Readers take the first or the last of them, so that they may see different types or texts. Rewrites keep all.",
    fails=relu(value(13, "y", 2), value(13, "y", 2)),
    passes=relu(value(13, "y", 2)),
)
def find(context: CheckContext) -> Violations:
    """Yield entries that a later entry of the list repeats."""
    # Start-up
    from graphshare.checks.onnx_facts import list_repeated

    for steps, name in list_repeated(context.graph):
        yield Violation(
            f"{steps[-2]} has another entry of {name!r}", steps, hint="keep one of them"
        )
