"""GS613: several statements on one value."""

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, relu, value


@check_rule(
    level="note",
    summary="A list of the file has several entries of one value",
    why="Readers take the first or the last of them, so that they may see different types. Rewrites keep all.",
    fails=relu(value(13, "y", 2), value(13, "y", 2)),
    passes=relu(value(13, "y", 2)),
    format="onnx",
)
def find(context: CheckContext) -> Violations:
    """Yield each entry after which the list has another one of its value."""
    from graphshare.checks.onnx_facts import list_repeated  # start-up: symbol files need no other format

    for part, message in list_repeated(context.graph):
        yield Violation(f"{part} has another entry of {message.name!r}", ("graph", part, message.rank), hint="keep one of them")
