"""GS003: a byte order mark before the first brace."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.document import BOM
from graphshare.checks.examples import dense
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield the mark if there is one."""
    if context.data.startswith(BOM):
        yield Violation("starts with a byte order mark", hint="save it as UTF-8 without BOM", at=(1, 1))


RULE = CheckRule(
    code="GS003",
    name="byte-order-mark",
    level=Level.ERROR,
    summary="The file starts with a UTF-8 byte order mark",
    why="Editors on Windows write it; MXNet refuses such a file.",
    find=find,
    fails=Example(BOM + dense().encode()),
    passes=Example(dense()),
    fix="removes it",
)
