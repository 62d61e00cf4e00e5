"""What every report is made of: findings with a code, a level and a place, the rules behind the codes, and the files looked at.

Commands fill a :class:`Report` and hand it to :func:`graphshare.reports.formats.render`. The exit code follows from the counted
findings and from nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

import msgspec

from graphshare.errors import Fault
from graphshare.text.format import format_count

Step = str | int
Steps = tuple[Step, ...]
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*")
_STEP = re.compile(r'\.([A-Za-z_]\w*)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]')


class Level(str, Enum):
    """How bad a finding is: MXNet refuses or computes nonsense; it may do so; worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class RuleInfo(msgspec.Struct, frozen=True):
    """What stands behind a code. ``summary`` is one line, ``help`` more of it, in plain text."""

    code: str
    name: str
    level: Level
    summary: str
    help: str = ""
    fixable: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a rule found.

    ``where`` is the file, ``path`` a place in it (a JSON path, or a record of a parameter file), ``node`` the node's name.
    ``line`` and ``column`` count from 1, in characters; 0 where the file has no lines or the place is not known. ``excerpt`` is
    that line of the file, shortened; ``excerpt_column`` says where in it the place is.
    """

    code: str
    level: Level
    message: str
    where: str
    path: str = ""
    node: str | None = None
    line: int = 0
    column: int = 0
    hint: str = ""
    fixable: bool = False
    excerpt: str = ""
    excerpt_column: int = 0

    @property
    def place(self) -> str:
        """``file:line:column``, as editors and terminals make links of it."""
        return f"{self.where}:{self.line}:{self.column}" if self.line else self.where


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one run of ``command`` over ``files``, in order; ``rules`` are all that could have found something.

    ``ignored`` counts findings that a suppression inside a file hid, ``known`` those that a baseline holds. ``tool_version`` is
    this package's, where a format has a place for it.
    """

    command: str
    files: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    rules: tuple[RuleInfo, ...] = ()
    ignored: int = 0
    known: int = 0
    fixed: int = 0
    tool_version: str = ""

    def count(self, level: Level) -> int:
        """How many findings are of ``level``."""
        return sum(finding.level is level for finding in self.findings)

    def exit_code(self, *, strict: bool = False) -> int:
        """1 where there is an error (with ``strict``, a warning too), else 0."""
        return int(bool(self.count(Level.ERROR) or (strict and self.count(Level.WARNING))))

    def summary(self) -> str:
        """One line that says it all."""
        counts = [format_count(n, level.value) for level in Level if (n := self.count(level))]
        said = ", ".join(counts) or "no findings"
        more = [
            f"{n} {what}"
            for n, what in ((self.fixed, "fixed"), (self.known, "in the baseline"), (self.ignored, "suppressed"))
            if n
        ]
        return f"{format_count(len(self.files), 'file')}: {said}" + (f" ({', '.join(more)})" if more else "")


def format_path(steps: Iterable[Step]) -> str:
    """``("nodes", 3, "attrs", "a b")`` as ``$.nodes[3].attrs["a b"]``."""
    parts = ["$"]
    for step in steps:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN_KEY.fullmatch(step):
            parts.append(f".{step}")
        else:
            escaped = step.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'["{escaped}"]')
    return "".join(parts)


def parse_path(text: str) -> tuple[Step, ...] | None:
    """The inverse of :func:`format_path`; None for what is no JSON path."""
    if not text.startswith("$"):
        return None
    steps: list[Step] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return None
        key, index, quoted = match.groups()
        steps.append(int(index) if index is not None else key or re.sub(r"\\(.)", r"\1", quoted))
        at = match.end()
    return tuple(steps)


def finding_of(fault: Fault, rule: RuleInfo, *, where: str = "") -> Finding:
    """A fault as a finding of ``rule``."""
    return Finding(
        code=rule.code,
        level=rule.level,
        message=fault.message,
        where=fault.where or where,
        path=fault.path,
        node=fault.node,
        hint=fault.hint,
    )
