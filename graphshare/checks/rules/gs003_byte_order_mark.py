"""GS003: a byte order mark before the first brace."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.document import BOM
from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """The mark, where there is one."""
    if subject.data.startswith(BOM):
        yield Found("starts with a byte order mark", hint="save it as UTF-8 without BOM", at=(1, 1))


RULE = Rule(
    code="GS003",
    name="byte-order-mark",
    level=Level.ERROR,
    summary="The file starts with a UTF-8 byte order mark",
    why="Editors on Windows put it there; MXNet refuses the file for it.",
    find=find,
    fails=Example(BOM + dense().encode()),
    passes=Example(dense()),
    fix="removes it",
)
