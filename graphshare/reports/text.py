"""The report for a person: every finding with the line it is about, as pieces of styled text.

The pieces name styles (``error``, ``place``, ``code`` ...) and no colours: the console decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.reports.model import Finding, Report
from graphshare.text.format import escape_control

#: A piece of a line: text and the name of its style, empty for plain text.
Piece = tuple[str, str]


def render(report: Report) -> str:
    """The report without styles."""
    return "".join("".join(escape_control(text) for text, _ in line) + "\n" for line in styled_lines(report))


def styled_lines(report: Report) -> Iterator[list[Piece]]:
    """The report line by line; a hint that the next finding repeats is said once."""
    for i, finding in enumerate(report.findings):
        following = report.findings[i + 1] if i + 1 < len(report.findings) else None
        yield from _finding_lines(finding, following)
    yield [(report.summary(), "summary")]


def _finding_lines(finding: Finding, following: Finding | None) -> Iterator[list[Piece]]:
    level = finding.level.value
    yield [(finding.place, "place"), (": ", ""), (level, level), (f" {finding.code}", "code"), (f" {finding.message}", "")]
    node = f'node "{finding.node}"' if finding.node is not None else ""
    if finding.path or node:
        told = [part for part in (finding.path, f"({node})" if node and finding.path else node) if part]
        yield [("  at ", ""), (" ".join(told), "path")]
    if finding.excerpt:
        number = f"  {finding.line} | "
        yield [(number, "gutter"), (finding.excerpt, "")]
        yield [(" " * (len(number) - 2) + "| ", "gutter"), (" " * (finding.excerpt_column - 1), ""), ("^", level)]
    if finding.hint and (following is None or (following.hint, following.code) != (finding.hint, finding.code)):
        yield [("  hint: ", "hint"), (finding.hint, "")]
