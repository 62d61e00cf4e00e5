"""Print a report, in colour on a terminal, or write it to a file; format differences of parameters
as text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

import graphshare
from graphshare.checkpoint.save import write_text
from graphshare.cli.command import option
from graphshare.cli.console import Line, is_colored, name_options, put_json_text, put_text, say
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import UsedFile
from graphshare.formats.params.records import STEPS
from graphshare.reports.formats import FORMATS, default_format, render
from graphshare.reports.model import FindingsReport, style_report
from graphshare.text.format import escape_control, format_count, format_dims, format_names
from graphshare.text.names import split_key

if TYPE_CHECKING:  # start-up: few reports are on parameters
    from graphshare.formats.params.diff import ParameterChange, ParameterDiff

F = TypeVar("F", bound=Callable[..., Any])

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan", "place": "bold", "code": "magenta",
           "path": "dim", "gutter": "blue", "hint": "cyan", "summary": "bold"}  # fmt: skip


def report_format(*more: str) -> Callable[[F], F]:
    """Add the option ``--format`` with every report format and ``more``; inside GitHub Actions the
    default is ``github``.
    """
    help_ = "Output format [text; inside GitHub Actions github]."
    return option("--format", "format_", type=click.Choice((*FORMATS, *more)), help=help_)


def put_report(
    report: FindingsReport,
    format_: str | None,
    *,
    out: str | None = None,
    inputs: Sequence[UsedFile] = (),
    stage: OutputTransaction | None = None,
) -> None:
    """Print ``report``, or write it to the file ``out`` with the files of ``stage``; commit
    ``stage`` in both cases.

    Raises:
        RefusedError: ``out`` is one of ``inputs``, the files that the report is about.
        OutputError: ``out`` cannot be written.
    """
    format_ = format_ or default_format()
    findings = tuple(
        msgspec.structs.replace(
            each, message=name_options(each.message), hint=name_options(each.hint)
        )
        for each in report.findings
    )
    report = msgspec.structs.replace(report, tool_version=graphshare.__version__, findings=findings)
    if out is not None and out != "-":
        write_text(
            out,
            render(report, format_).encode("utf-8", "backslashreplace"),
            inputs=inputs,
            stage=stage,
        )
        say(f"wrote {out}")
        return
    if format_ == "text" and is_colored(sys.stdout):
        _put_colored(report)
    else:
        (put_json_text if format_ in ("json", "sarif") else put_text)(render(report, format_))
    if stage is not None:
        # A report that cannot be printed leaves the files unchanged.
        stage.commit()


def _put_colored(report: FindingsReport) -> None:
    from rich.console import Console  # start-up: plain output needs no rich
    from rich.text import Text

    # Rich would break long lines and colour numbers and paths.
    console = Console(highlight=False, soft_wrap=True)
    for line in style_report(report):
        text = Text()
        for piece, style in line:
            text.append(escape_control(piece), _STYLES.get(style, ""))
        console.print(text)


def format_parameter_diff(difference: ParameterDiff) -> Iterator[Line]:
    """Yield a line for each parameter that differs, and a count."""
    for change in difference.changes:
        style = change.how if change.how in ("added", "removed") else "changed"
        yield style, f"{change.how:8} {_names(change)}  {_what(change)}"
    near = f", {difference.near} of them near" if difference.near else ""
    yield "", f"parameters: {difference.equal} equal{near}, {len(difference.changes)} different"
    if difference.missing:
        yield (
            "",
            f"{format_names(difference.missing)}: not compared, their file does not exist or is too short",
        )
    for dtype, count in difference.across.items():
        yield (
            "",
            (
                f"{format_count(count, 'array')} of different types compared up to the rounding of "
                f"{dtype}, {STEPS[dtype][1]:.3g}"
            ),
        )


def _names(change: ParameterChange) -> str:
    old, new = change.old, change.new
    if old is None or new is None or old == new:
        return old or new or "(no name)"
    # arg: or aux: is repeated only if it changes.
    return f"{old} -> {new if split_key(old)[0] != split_key(new)[0] else split_key(new)[1]}"


def _what(change: ParameterChange) -> str:
    shape = format_dims(change.shape, unknown="never filled")
    parts = [change.detail] if change.detail else [f"{shape} {change.dtype or ''}".rstrip()]
    if change.distance is not None and not change.distance:
        apart = change.distance
        most = (
            "NaN or infinities differ" if apart.max_abs is None else f"max abs {apart.max_abs:.4g}"
        )
        most = "equal as numbers but not as bits" if change.how == "bits" else most
        parts.append(f"{apart.differing:,} of {apart.count:,} differ, {most}")
    if change.distance is not None and change.distance.densified:
        parts.append("compared in dense form")
    return "; ".join(parts)
