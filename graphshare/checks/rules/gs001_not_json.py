"""GS001: the file is not JSON."""

import re

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense
from graphshare.reports.model import parse_path

_LINE = re.compile(r"line (\d+) column (\d+)")


@check_rule(
    level="error",
    summary="The file is not JSON: cut short, bytes after the end, invalid UTF-8, or wrong punctuation",
    why=(
        "MXNet reads some such files, those cut inside the last brackets or with trailing bytes; "
        "no other tool does, and "
        "what is missing is unknown."
    ),
    fails=dense()[:-20],
    passes=dense(),
)
def find(context: CheckContext) -> Violations:
    """Yield the reader's reasons."""
    for fault in context.reading.json_faults:
        match = _LINE.fullmatch(fault.path)
        at = (int(match[1]), int(match[2])) if match else (0, 0)
        yield Violation(fault.message, parse_path(fault.path) or (), hint=fault.hint, at=at)
