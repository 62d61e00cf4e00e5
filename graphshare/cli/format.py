"""``graphshare format``."""

from __future__ import annotations

import click

from graphshare.checkpoint.load import load_checkpoint, refusals_of, resolve_outputs
from graphshare.checkpoint.save import write_results
from graphshare.cli import options
from graphshare.cli.console import say
from graphshare.cli.emit import refuse_terminal
from graphshare.cli.report import put_report, report_format
from graphshare.cli.summary import say_written
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.relayout import layout_report, relayout
from graphshare.reports.formats import default_format


@click.command("format")
@options.GRAPH
@options.out
@click.option("--layout", metavar="LAYOUT", help="mxnet, compact or indent:N; without it the file's own.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the file would change.")
@report_format
def format_(graph: str, out: str | None, layout: str | None, check: bool, format_: str | None) -> int:
    """Lay the file out anew, or check its layout.

    The graph stays as it is, unknown keys and order of nodes included. --layout mxnet is MXNet's own layout to the byte.
    --format says how --check reports.
    """
    source = load_checkpoint(graph)
    result = relayout(source.graph, layout)
    if check:
        with refusals_of(source):
            changes = b"".join(write_symbol(result)) != source.data
        if (format_ or default_format()) != "text":
            report = layout_report(source.where, layout or "", changes=changes)
            put_report(report, format_)
            return report.exit_code()
        say(f"{source.where}: {'would change' if changes else 'is laid out so already'}")
        return int(changes)
    outputs = resolve_outputs(out, None, None, source)
    if outputs.graph == "-":
        refuse_terminal()
    with refusals_of(source):
        write_results(result, outputs)
    say_written(outputs)
    return 0
