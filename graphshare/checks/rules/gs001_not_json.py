"""GS001: the file cannot be read as JSON at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level, parse_path

_LINE = re.compile(r"line (\d+) column (\d+)")


def find(subject: Subject) -> Iterator[Found]:
    """The reasons that the reader gives."""
    for fault in subject.reading.malformed:
        match = _LINE.fullmatch(fault.path)
        at = (int(match[1]), int(match[2])) if match else (0, 0)
        yield Found(fault.message, parse_path(fault.path) or (), hint=fault.hint, at=at)


RULE = Rule(
    code="GS001",
    name="not-json",
    level=Level.ERROR,
    summary="The file is not JSON: cut short, bytes after the end, invalid UTF-8, or wrong punctuation",
    why="Nothing can be read from it. MXNet reads some such files, cut inside the last brackets or with trailing bytes; "
    "no other tool does, and what is missing is not known.",
    find=find,
    fails=Example(dense()[:-20]),
    passes=Example(dense()),
)
