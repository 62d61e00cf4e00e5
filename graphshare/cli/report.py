"""Print a report or write it to a file; on a terminal in colour."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

import graphshare
from graphshare.checkpoint.save import write_text
from graphshare.cli.console import is_colored, name_options, put_json_text, put_text, say
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import UsedFile
from graphshare.reports.formats import FORMATS, default_format, render, style_report
from graphshare.reports.model import FindingsReport
from graphshare.text.format import escape_control

F = TypeVar("F", bound=Callable[..., Any])

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan", "place": "bold", "code": "magenta",
           "path": "dim", "gutter": "blue", "hint": "cyan", "summary": "bold"}  # fmt: skip


def report_format(*more: str) -> Callable[[F], F]:
    """Add the option ``--format`` with every report format and ``more``; inside GitHub Actions the default is ``github``."""
    help_ = "How to print [text; inside GitHub Actions: github]."
    return click.option("--format", "format_", type=click.Choice((*FORMATS, *more)), help=help_)


def put_report(
    report: FindingsReport,
    format_: str | None,
    *,
    out: str | None = None,
    inputs: Sequence[UsedFile] = (),
    stage: OutputTransaction | None = None,
) -> None:
    """Print ``report``, or write it to the file ``out`` with the files of ``stage``, which is committed in both cases.

    Raises:
        RefusedError: ``out`` is one of ``inputs``, the files that the report is about.
        OutputError: ``out`` cannot be written.
    """
    format_ = format_ or default_format()
    findings = tuple(
        msgspec.structs.replace(each, message=name_options(each.message), hint=name_options(each.hint))
        for each in report.findings
    )
    report = msgspec.structs.replace(report, tool_version=graphshare.__version__, findings=findings)
    if out is not None and out != "-":
        write_text(out, render(report, format_).encode("utf-8", "backslashreplace"), inputs=inputs, stage=stage)
        say(f"wrote {out}")
        return
    if format_ == "text" and is_colored(sys.stdout):
        _put_colored(report)
    else:
        (put_json_text if format_ in ("json", "sarif") else put_text)(render(report, format_))
    if stage is not None:
        stage.commit()


def _put_colored(report: FindingsReport) -> None:
    from rich.console import Console  # start-up: plain output needs no rich
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in style_report(report):
        text = Text()
        for piece, style in line:
            text.append(escape_control(piece), _STYLES.get(style, ""))
        console.print(text)
