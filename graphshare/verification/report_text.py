"""The text of a report of ``verify`` or ``compare``: the stages of each branch, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.text.format import escape_control, format_count
from graphshare.verification.report import OTHER_MODEL, Report

_MARKS = {"holds": "ok", "fails": "FAIL", "unknown": "?", "skipped": "skip"}


def format_report(report: Report) -> Iterator[list[tuple[str, str]]]:
    """Yield lines of parts, each with what it says: the verdict of a stage, the outcome of the report, or nothing."""
    for branch in report.branches:
        names = f"{branch.reference or '(original)'} and {branch.branch}" if branch.branch != OTHER_MODEL else "both models"
        yield [("", names)]
        for stage in branch.stages:
            mark = _MARKS[stage.verdict]
            yield [("", "  "), (stage.verdict, mark), ("", f"{'':{5 - len(mark)}}{stage.name:11} {stage.summary}")]
            yield from ([("", f"       {escape_control(detail)}")] for detail in stage.details)
    if (reduced := report.reduced) is not None:
        counts = (format_count(len(reduced.operators), "operator"), str(len(reduced.other_operators)))
        yield [("", f"reduced to {' and '.join(counts)}: {escape_control(reduced.command)}")]
    word, colon, reason = report.verdict.partition(":")
    yield [(report.outcome, word), ("", colon + reason)]
