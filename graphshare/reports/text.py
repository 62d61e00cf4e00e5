"""Write a report for people: every finding with its line, as pieces of styled text.

The pieces have style names (``error``, ``place``, ``code`` ...); the console chooses the colours.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.reports.model import Finding, FindingsReport
from graphshare.text.format import escape_control

#: A piece of a line: text and the name of its style, empty for plain text.
Piece = tuple[str, str]


def render(report: FindingsReport) -> str:
    """Return the report without styles."""
    return "".join("".join(escape_control(text) for text, _ in line) + "\n" for line in style_report(report))


def style_report(report: FindingsReport) -> Iterator[list[Piece]]:
    """Yield the report line by line; a hint that the next finding repeats is printed once."""
    for i, finding in enumerate(report.findings):
        following = report.findings[i + 1] if i + 1 < len(report.findings) else None
        yield from _style_finding(finding, following)
    yield [(report.summary(), "summary")]


def _style_finding(finding: Finding, following: Finding | None) -> Iterator[list[Piece]]:
    level = finding.level.value
    yield [(finding.place, "place"), (": ", ""), (level, level), (f" {finding.code}", "code"), (f" {finding.message}", "")]
    node = f'node "{finding.node}"' if finding.node is not None else ""
    if finding.path or node:
        parts = [part for part in (finding.path, f"({node})" if node and finding.path else node) if part]
        yield [("  at ", ""), (" ".join(parts), "path")]
    if finding.excerpt:
        number = f"  {finding.line} | "
        yield [(number, "gutter"), (finding.excerpt, "")]
        yield [(" " * (len(number) - 2) + "| ", "gutter"), (" " * (finding.excerpt_column - 1), ""), ("^", level)]
    if finding.hint and (following is None or (following.hint, following.code) != (finding.hint, finding.code)):
        yield [("  hint: ", "hint"), (finding.hint, "")]
