"""GS003: a byte order mark before the first brace."""

from graphshare.checks.document import BOM
from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense


@check_rule(
    level="error",
    summary="The file starts with a UTF-8 byte order mark",
    why="Editors on Windows write it; MXNet refuses such a file.",
    fails=BOM + dense().encode(),
    passes=dense(),
    fix="removes it",
)
def find(context: CheckContext) -> Violations:
    """Yield the mark."""
    if context.data.startswith(BOM):
        yield Violation(
            "starts with a byte order mark", hint="save it as UTF-8 without BOM", at=(1, 1)
        )
