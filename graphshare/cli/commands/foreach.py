"""``graphshare foreach``: options, progress while results arrive, then one report over all models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import Any

import click
import msgspec

from graphshare.api.foreach import foreach
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import Bar, align, is_quiet, is_shown, put, put_json_text, put_text, say
from graphshare.cli.fleet import refuse_misspelt
from graphshare.cli.report import put_report
from graphshare.files.staged_file import note_output
from graphshare.fleet.foreach import FleetRun
from graphshare.fleet.records import Result
from graphshare.fleet.summary import RunSummary, Spool, describe_counts, write_page
from graphshare.fleet.tasks import Template
from graphshare.reports.model import Finding, FindingsReport, Level, RuleInfo
from graphshare.text.format import (
    encode_json,
    escape_control,
    format_count,
    format_names,
    format_number,
)

PAUSE = 30.0  # seconds between two lines
FORMATS = ("text", "json", "jsonl", "sarif", "junit", "github", "html")
_MOST_FIGURES = 20
_LISTED = 10


class _TakesCommand(Command):
    """The words after ``--`` are another command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        asks_help = not {*ctx.help_option_names, "--help-all"}.isdisjoint(args[:at])
        if not ctx.resilient_parsing and not asks_help:
            refuse_misspelt(args[:at], args[at + 1 :])
        rest = super().parse_args(ctx, args[:at])
        ctx.params["words"] = args[at + 1 :]
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "-- COMMAND ..."]


EXAMPLES = {
    "foreach": [
        (
            "a siamese network of every model",
            "graphshare foreach '*-symbol.json' -o out -- duplicate {} --prefix b- --mode tie",
        ),
        (
            "findings in all models, as one report",
            "graphshare foreach '*-symbol.json' --report github -- check {}",
        ),
        (
            "tied weights that all checkpoints store twice",
            "graphshare foreach 'gpt*' --report github -- check {}",
        ),
        (
            "models that are there twice",
            "graphshare foreach '*-symbol.json' -- inspect {} --fingerprint",
        ),
    ],
}


@click.command("foreach", cls=_TakesCommand)
@click.argument("patterns", metavar="PATTERN...", nargs=-1, required=True)
@options.exclude
@option(
    "-o",
    "--out",
    metavar="DEST",
    help="Folder of all outputs; each keeps its relative path and file name.",
)
@option(
    "--jobs",
    type=click.IntRange(min=1, max=1024),
    default=1,
    metavar="N",
    help="Run N models at a time [1].",
)
@option(
    "--scheduler",
    metavar="ADDRESS",
    default="",
    help="Run on the workers of the Dask cluster at this address, such as tcp://HOST:8786.",
)
@option(
    "--shared-filesystem",
    is_flag=True,
    help="The workers of the cluster see the same files under the same paths.",
)
@option(
    "--manifest",
    metavar="FILE",
    help="Record each model in this file, and skip models that it lists as finished.",
)
@option("--retry", is_flag=True, help="Run only models that the manifest lists as failed.")
@option(
    "--force", is_flag=True, help="Run every model, even those that the manifest lists as finished."
)
@option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Stop a model with an error after this many seconds.",
)
@option(
    "--max-memory",
    metavar="SIZE",
    help="Refuse a model that would take more memory than SIZE, such as 2G [the free memory].",
)
@option(
    "--report",
    "report_format",
    type=click.Choice(FORMATS),
    default="text",
    help="Output format [text].",
)
def command(
    patterns: tuple[str, ...], words: list[str], report_format: str, **settings: Any
) -> int:
    """Run a command for every model that matches.

    PATTERN is a glob, a stem, a folder or a file; it matches symbol files, each with its newest
    parameter file, and .onnx files. A checkpoint folder of safetensors is one model for `check`,
    `inspect` and `params`, whatever files are in it. In COMMAND {} stands for the model, {stem} for
    its path without -symbol.json, {name} for the last part of that.

    Outputs go into DEST, each into the subfolder that its model has below the fixed part of
    PATTERN; foreach itself gives COMMAND its -o, --params-out and --map-out. A command that writes
    nothing needs no DEST.

    A model that fails does not end the others. The exit code is 0 if all are done, 1 if an answer
    was no, 2 if one has failed.
    """
    return report_results(foreach(patterns, words, **settings), report_format)


def report_results(run: FleetRun, format_: str) -> int:
    """Collect the results of a run as they arrive, print the report, and return the exit code.

    A text report is the summary; with any other format the summary goes to stderr.
    """
    summary, spool = RunSummary(), Spool() if format_ not in ("text", "jsonl") else None
    for note in run.notes:
        say(note)
    progress = FleetProgress(run.total)
    try:
        for result in run:
            progress.add(result)
            if result.outputs and result.result == "done":
                note_output(run.out, False)  # an interrupt keeps finished outputs
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
    put_report(collect_findings(template.name, spool.results()), format_)


def _put_pieces(pieces: Iterable[str], write: Callable[[str], None]) -> None:
    for piece in pieces:
        write(piece)


def _json_pieces(command: Sequence[str], summary: RunSummary, spool: Spool) -> Iterator[str]:
    counts = {key: getattr(summary, key) for key in ("done", "no", "failed", "skipped")}
    head = encode_json(
        {"version": 1, "command": list(command), "counts": counts, "figures": summary.figures}
    ).decode()
    yield f'{head[:-1]},"models":['
    for i, line in enumerate(spool.lines()):
        yield ("\n" if i == 0 else ",\n") + line.decode()
    yield "\n]}\n"


def _result_lines(summary: RunSummary) -> Iterator[str]:
    """Yield a line for each of the first unfinished models."""
    for result in summary.first:
        yield f"{result.result} {result.source}" + (f": {result.error}" if result.error else "")
    if (rest := summary.no + summary.failed - len(summary.first)) > 0:
        yield f"and {rest:,} more; --report json or a manifest has all of them"


def _summary_lines(summary: RunSummary) -> Iterator[str]:
    yield from _result_lines(summary)
    for sources in summary.sources.values():
        if len(sources) > 1:
            yield escape_control(f"the same model: {format_names(sorted(sources), _LISTED)}")
    figures = [(name, figure) for name, figure in summary.figures.items() if figure.max][
        :_MOST_FIGURES
    ]
    if figures:
        rows = [
            (
                name,
                format_number(f.min),
                format_number(f.sum / f.count),
                format_number(f.max),
                format_number(f.sum, 6),
            )
            for name, f in figures
        ]
        yield from align(
            [("", "least", "mean", "most", "sum"), *rows], right=[False, True, True, True, True]
        )
    yield escape_control(describe_counts(summary))


class FleetProgress(Bar):
    """Counts results, except results of an earlier run: they take no time, so the rate would be wrong."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._is_bar = is_shown()
        self._failed = 0
        self._said_at = monotonic()
        self.begin("running", total, "models")

    def add(self, result: Result) -> None:
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
        return super().line(elapsed) + (f"  {self._failed:,} failed" if self._failed else "")

    def _amount(self, count: float) -> str:
        return f"{count:,.1f} models" if 0 < count < 10 and count % 1 else super()._amount(count)

    def _plain_line(self, elapsed: float) -> str:
        bar = f"{self._done:,} of {format_count(self._total, 'model')}, {self.rate_and_time_left(elapsed)}"
        return bar + (f", {self._failed:,} failed" if self._failed else "")


_FAILED = RuleInfo(
    "foreach-failed", "foreach-failed", Level.ERROR, "The command could not be run for a model"
)
_NO = RuleInfo("foreach-no", "foreach-no", Level.ERROR, "The answer for a model is no")


def collect_findings(command: str, results: Iterable[Result]) -> FindingsReport:
    """Return the findings of all models; ``command`` is its name."""
    files: list[str] = []
    findings: list[Finding] = []
    is_strict = False
    for result in results:
        files.append(result.source)
        of_model = list(_find(command, result))
        findings += of_model
        # A model without errors answers no if its command was strict; then the report must be
        # strict, too.
        is_strict |= result.result == "no" and all(
            finding.level is not Level.ERROR for finding in of_model
        )
    rules: tuple[RuleInfo, ...] = ()
    if command == "check":
        from graphshare.checks.engine import RULES  # one command needs them

        rules = tuple(rule.info for rule in RULES.values())
    return FindingsReport(
        command=f"foreach {command}",
        files=tuple(files),
        findings=tuple(findings),
        rules=(*rules, _FAILED, _NO),
        strict=is_strict,
    )


def _find(command: str, result: Result) -> Iterator[Finding]:
    where = result.source
    if result.result not in ("done", "no"):
        yield Finding(
            code=_FAILED.code, level=Level.ERROR, message=result.error or result.result, where=where
        )
        return
    report = result.summary
    for finding in report.findings:
        yield Finding(
            code=finding.code,
            level=finding.level,
            message=finding.message,
            where=finding.file,
            path=finding.path,
            node=finding.node,
            line=finding.line or 0,
            column=finding.column or 0,
            hint=finding.hint,
        )
    for branch in report.branches:
        for stage in branch.stages:
            if stage.verdict == "fails":
                message = "\n".join(
                    (f"{stage.name} of {branch.branch}: {stage.summary}", *stage.details)
                )
                yield Finding(
                    code=f"{command}-{stage.name}", level=Level.ERROR, message=message, where=where
                )
    if report.verdict or (result.result == "no" and not report.findings):
        code, level = (
            (_NO.code, Level.ERROR) if result.result == "no" else (f"{command}-verdict", Level.NOTE)
        )
        yield Finding(
            code=code,
            level=level,
            message=report.verdict or result.error or "the answer is no",
            where=where,
        )
