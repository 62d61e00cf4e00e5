"""The results of ``foreach``: progress while they come, then the summary."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.cli.console import put
from graphshare.fleet.foreach import FleetRun
from graphshare.fleet.summary import Summary
from graphshare.progress import task
from graphshare.text.format import format_count

FORMATS = ("text",)


def report_results(run: FleetRun, format_: str) -> int:
    """Take the results of a run as they come, print the report, and return the exit code."""
    summary = Summary()
    try:
        with task("running", run.total, "models") as advance:
            for result in run:
                summary.add(result)
                advance(1)
    finally:
        run.close()
    put(_summary_lines(summary))
    return summary.exit_code


def _summary_lines(summary: Summary) -> Iterator[str]:
    for result in summary.first:
        yield f"{result.result:6} {result.source}: {result.error or 'see the report'}"
    parts = [f"{summary.done:,} done"]
    parts += [f"{summary.no:,} answered no"] if summary.no else []
    parts += [f"{summary.failed:,} failed"] if summary.failed else []
    parts += [f"{summary.skipped:,} of them skipped, as before"] if summary.skipped else []
    yield f"{format_count(summary.total, 'model')}: {', '.join(parts)}"
