"""The results of ``foreach``: progress while they come, then one report over all models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic

import msgspec

from graphshare.cli.console import align, is_quiet, put, put_json_text, put_text, say
from graphshare.cli.progress import Bar, is_shown
from graphshare.files.staged_file import note_output
from graphshare.fleet.foreach import FleetRun
from graphshare.fleet.page import describe_counts, write_page
from graphshare.fleet.records import Result
from graphshare.fleet.spool import Spool
from graphshare.fleet.summary import RunSummary
from graphshare.fleet.tasks import Template
from graphshare.text.format import escape_control, format_count, format_number
from graphshare.text.json_text import encode_json

PAUSE = 30.0  # seconds between two lines
FORMATS = ("text", "json", "jsonl", "sarif", "junit", "github", "html")
_MOST_FIGURES = 20


def report_results(run: FleetRun, format_: str) -> int:
    """Take the results of a run as they come, print the report, and return the exit code.

    A report as text is the summary; beside any other the summary goes to stderr.
    """
    summary, spool = RunSummary(), Spool() if format_ not in ("text", "jsonl") else None
    for note in run.notes:
        say(note)
    progress = FleetProgress(run.total)
    try:
        for result in run:
            progress.add(result)
            if result.outputs and result.result == "done":
                note_output(run.out, False)  # an interrupt leaves what is finished
            summary.add(result)
            if spool is not None:
                spool.append(result)
            elif format_ == "jsonl":
                put_json_text(msgspec.json.encode(result).decode() + "\n")
    finally:
        progress.end()
        run.close()
    if format_ == "text":
        put(_summary_lines(summary))
        return summary.exit_code
    for line in _result_lines(summary):
        say(line, style="warning")
    if spool is not None:
        _put_report(format_, run.template, summary, spool)
    say(describe_counts(summary))
    return summary.exit_code


def _put_report(format_: str, template: Template, summary: RunSummary, spool: Spool) -> None:
    if format_ == "json":
        _put_pieces(_json_pieces(template.words, summary, spool), put_json_text)
        return
    if format_ == "html":
        _put_pieces(write_page(template.words, summary, spool), put_text)
        return
    from graphshare.cli.fleet_findings import collect_findings  # start-up: only these formats need it
    from graphshare.cli.report import put_report

    put_report(collect_findings(template.name, spool.results()), format_)


def _put_pieces(pieces: Iterable[str], write: Callable[[str], None]) -> None:
    for piece in pieces:
        write(piece)


def _json_pieces(command: Sequence[str], summary: RunSummary, spool: Spool) -> Iterator[str]:
    """Yield the report as JSON, a model per line."""
    counts = {key: getattr(summary, key) for key in ("done", "no", "failed", "skipped")}
    head = encode_json({"version": 1, "command": list(command), "counts": counts, "figures": summary.figures}).decode()
    yield f'{head[:-1]},"models":['
    for i, line in enumerate(spool.lines()):
        yield ("\n" if i == 0 else ",\n") + line.decode()
    yield "\n]}\n"


def _result_lines(summary: RunSummary) -> Iterator[str]:
    """Yield a line for each of the first models that are not done."""
    for result in summary.first:
        yield f"{result.result} {result.source}" + (f": {result.error}" if result.error else "")
    if (rest := summary.no + summary.failed - len(summary.first)) > 0:
        yield f"and {rest:,} more; --report json or a manifest has all of them"


def _summary_lines(summary: RunSummary) -> Iterator[str]:
    yield from _result_lines(summary)
    figures = [(name, figure) for name, figure in summary.figures.items() if figure.max][:_MOST_FIGURES]
    if figures:
        rows = [
            (name, format_number(f.min), format_number(f.sum / f.count), format_number(f.max), format_number(f.sum, 6))
            for name, f in figures
        ]
        yield from align([("", "least", "mean", "most", "sum"), *rows], right=[False, True, True, True, True])
    yield escape_control(describe_counts(summary))


class FleetProgress(Bar):
    """Counts results. Those of an earlier run are left out: they take no time, and the rate would be wrong."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._is_bar = is_shown()
        self._failed = 0
        self._said_at = monotonic()
        self.begin("running", total, "models")

    def add(self, result: Result) -> None:
        """Count a result, and show how far the run is if it is time to."""
        if result.was_skipped:
            self._total -= 1
            return
        self._failed += result.result in ("failed", "killed")
        if self._is_bar:
            self.advance(1)
            return
        self._done += 1
        now = monotonic()
        if not is_quiet() and now - self._said_at >= PAUSE:
            self._said_at = now
            say(self._plain_line(now - self._started))

    def line(self, elapsed: float) -> str:
        """Return the bar's line with the failures."""
        return super().line(elapsed) + (f"  {self._failed:,} failed" if self._failed else "")

    def _amount(self, count: float) -> str:
        """Return a rate; a model may take many seconds."""
        return f"{count:,.1f} models" if 0 < count < 10 and count % 1 else super()._amount(count)

    def _plain_line(self, elapsed: float) -> str:
        bar = f"{self._done:,} of {format_count(self._total, 'model')}, {self.rate_and_time_left(elapsed)}"
        return bar + (f", {self._failed:,} failed" if self._failed else "")
