"""GS001: the file is not JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphshare.checks.context import CheckContext
from graphshare.checks.examples import dense
from graphshare.checks.rule import CheckRule, Example, Violation
from graphshare.reports.model import Level, parse_path

_LINE = re.compile(r"line (\d+) column (\d+)")


def find(context: CheckContext) -> Iterator[Violation]:
    """Yield the reasons that the reader gives."""
    for fault in context.reading.json_faults:
        match = _LINE.fullmatch(fault.path)
        at = (int(match[1]), int(match[2])) if match else (0, 0)
        yield Violation(fault.message, parse_path(fault.path) or (), hint=fault.hint, at=at)


RULE = CheckRule(
    code="GS001",
    name="not-json",
    level=Level.ERROR,
    summary="The file is not JSON: cut short, bytes after the end, invalid UTF-8, or wrong punctuation",
    why="MXNet reads some such files, those cut inside the last brackets or with trailing bytes; no other tool does, and "
    "what is missing is unknown.",
    find=find,
    fails=Example(dense()[:-20]),
    passes=Example(dense()),
)
