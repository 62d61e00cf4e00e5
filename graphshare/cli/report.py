"""Putting a report where it belongs: standard output or a file, in colour on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

import graphshare
from graphshare.cli.console import colored, put_text
from graphshare.reports.formats import FORMATS, default_format, render
from graphshare.reports.model import Report
from graphshare.text.format import escape_control

F = TypeVar("F", bound=Callable[..., Any])

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan", "place": "bold", "code": "magenta",
           "path": "dim", "gutter": "blue", "hint": "cyan", "summary": "bold"}  # fmt: skip


def report_format(command: F) -> F:
    """The option ``--format`` with every report format; ``github`` is found by itself inside GitHub Actions."""
    option = click.option(
        "--format",
        "format_",
        type=click.Choice(list(FORMATS)),
        help="How to print [text; inside GitHub Actions: github].",
    )
    decorated: F = option(command)
    return decorated


def put_report(report: Report, format_: str | None, *, out: str | None = None) -> None:
    """Prints ``report``, or writes it to the file ``out``. Raises OutputError where that cannot be written."""
    format_ = format_ or default_format()
    report = msgspec.structs.replace(report, tool_version=graphshare.__version__)
    if out is not None and out != "-":
        from graphshare.checkpoint.save import write_text

        write_text(out, render(report, format_).encode("utf-8", "backslashreplace"))
    elif format_ == "text" and colored(sys.stdout):
        _put_colored(report)
    else:
        put_text(render(report, format_))


def _put_colored(report: Report) -> None:
    from rich.console import Console
    from rich.text import Text

    from graphshare.reports.text import style_report

    console = Console(highlight=False, soft_wrap=True)
    for line in style_report(report):
        text = Text()
        for piece, style in line:
            text.append(escape_control(piece), _STYLES.get(style, ""))
        console.print(text)
