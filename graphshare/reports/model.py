"""The contents of a report: findings, the rules of their codes, and the checked files.

Commands make a :class:`FindingsReport`, and :func:`graphshare.reports.formats.render` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from graphshare.text.format import escape_control, format_count
from graphshare.text.summary import ShortRepr, Table, format_html
from graphshare.text.urls import redact

Step = str | int
Steps = tuple[Step, ...]
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*")
_STEP = re.compile(r'\.([A-Za-z_]\w*)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]')


class Level(str, Enum):
    """The severity of a finding: MXNet fails or computes nonsense; MXNet may do so; worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class RuleInfo(msgspec.Struct, frozen=True):
    """The description of a code: ``summary`` is one line, ``help`` is longer."""

    code: str
    name: str
    level: Level
    summary: str
    help: str = ""
    fixable: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One violation of a rule.

    ``where`` is the file, ``path`` a place in it (a JSON path, or a record of a parameter file),
    ``node`` the node's name. ``line`` and ``column`` count from 1, in characters; 0 where the file
    has no lines or the place is unknown. ``excerpt`` is that line of the file, shortened, and
    ``excerpt_column`` the column in the excerpt.
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

    def __post_init__(self) -> None:
        # Reports are kept and passed on, and a URL may hold credentials.
        if "://" in self.where:
            msgspec.structs.force_setattr(self, "where", redact(self.where))

    @property
    def place(self) -> str:
        """``file:line:column``: editors and terminals turn it into a link."""
        return f"{self.where}:{self.line}:{self.column}" if self.line else self.where


class FindingsReport(ShortRepr, msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one run of ``command`` over ``files``, in order; ``rules`` are all rules that
    ran.

    ``ignored`` counts findings suppressed inside files, ``known`` findings in a baseline.
    ``tool_version`` is this package's. ``strict`` makes warnings decide the exit code too.
    ``unchecked`` are files that no rule looked at, each with the reason.
    """

    command: str
    files: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    rules: tuple[RuleInfo, ...] = ()
    ignored: int = 0
    known: int = 0
    fixed: int = 0
    tool_version: str = ""
    strict: bool = False
    unchecked: Mapping[str, str] = {}

    @property
    def text(self) -> str:
        """The findings and their count, as ``check`` prints them."""
        return "\n".join(
            "".join(escape_control(text) for text, _ in line) for line in style_report(self)
        )

    def __str__(self) -> str:
        return self.text

    def _summary(self) -> str:
        return f"{self.command}: {self.summary()}"

    def _repr_html_(self) -> str:
        rows = [
            (f.level.value, f.code, f.message, f.node or "", f.place, f.hint) for f in self.findings
        ]
        return format_html(
            self._summary(),
            tables=[Table(("level", "code", "finding", "node", "place", "hint"), rows)],
        )

    def count(self, level: Level) -> int:
        return sum(finding.level is level for finding in self.findings)

    def exit_code(self, *, strict: bool = False) -> int:
        """Return 1 if there is an error (with ``strict`` also a warning), else 2 if a file was not
        checked, otherwise 0.
        """
        if any(self.is_failure(finding, strict=strict) for finding in self.findings):
            return 1
        return 2 if self.unchecked else 0

    def is_failure(self, finding: Finding, *, strict: bool = False) -> bool:
        """Return whether a finding makes the exit code 1."""
        return finding.level is Level.ERROR or (
            finding.level is Level.WARNING and (strict or self.strict)
        )

    def summary(self) -> str:
        counts = [format_count(n, level.value) for level in Level if (n := self.count(level))]
        text = ", ".join(counts) or (
            "no findings" if len(self.unchecked) < len(self.files) else "none was checked"
        )
        others = (
            (self.fixed, "fixed"),
            (self.known, "in the baseline"),
            (self.ignored, "suppressed"),
        )
        more = [f"{n} {what}" for n, what in (*others, (len(self.unchecked), "not checked")) if n]
        return f"{format_count(len(self.files), 'file')}: {text}" + (
            f" ({', '.join(more)})" if more else ""
        )


def format_path(steps: Iterable[Step]) -> str:
    """Return ``("nodes", 3, "attrs", "a b")`` as ``$.nodes[3].attrs["a b"]``."""
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
    """Return the steps of a JSON path, the inverse of :func:`format_path`; None if ``text`` is not
    one.
    """
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


Piece = tuple[str, str]


def style_report(report: FindingsReport) -> Iterator[list[Piece]]:
    """Yield the lines of a report; a hint that the next finding repeats is printed once."""
    for i, finding in enumerate(report.findings):
        following = report.findings[i + 1] if i + 1 < len(report.findings) else None
        yield from _style_finding(finding, following)
    yield from ([(file, "place"), (f": {reason}", "")] for file, reason in report.unchecked.items())
    yield [(report.summary(), "summary")]


def _style_finding(finding: Finding, following: Finding | None) -> Iterator[list[Piece]]:
    level = finding.level.value
    yield [
        (finding.place, "place"),
        (": ", ""),
        (level, level),
        (f" {finding.code}", "code"),
        (f" {finding.message}", ""),
    ]
    node = f'node "{finding.node}"' if finding.node is not None else ""
    if finding.path or node:
        parts = [
            part for part in (finding.path, f"({node})" if node and finding.path else node) if part
        ]
        yield [("  at ", ""), (" ".join(parts), "path")]
    if finding.excerpt:
        number = f"  {finding.line} | "
        yield [(number, "gutter"), (finding.excerpt, "")]
        yield [
            (" " * (len(number) - 2) + "| ", "gutter"),
            (" " * (finding.excerpt_column - 1), ""),
            ("^", level),
        ]
    if finding.hint and (
        following is None or (following.hint, following.code) != (finding.hint, finding.code)
    ):
        yield [("  hint: ", "hint"), (finding.hint, "")]
