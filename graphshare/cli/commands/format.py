"""``graphshare format``."""

from __future__ import annotations

import click
import msgspec

from graphshare.api.format import format as lay_out
from graphshare.api.format import layout_report
from graphshare.checkpoint.load import graph_path, load
from graphshare.checkpoint.save import find_stale, resolve_outputs, write_outputs
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import say
from graphshare.cli.output import refuse_terminal, say_written, warn
from graphshare.cli.report import put_report, report_format
from graphshare.errors import locate_refusals
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.reports.formats import default_format

EXAMPLES = {
    "format": [
        ("for reading and diffing", "graphshare format lenet --layout indent:2"),
        ("in CI", "graphshare format lenet --layout mxnet --check"),
    ],
}


@click.command("format", cls=Command)
@options.GRAPH
@options.out
@options.in_place
@option(
    "--layout",
    metavar="LAYOUT",
    help="Layout of the text: mxnet, compact or indent:N [the file's own].",
)
@option("--check", is_flag=True, help="Write nothing; exit 1 if the file would change.")
@report_format()
def command(
    graph: str,
    out: str | None,
    in_place: bool,
    layout: str | None,
    check: bool,
    format_: str | None,
) -> int:
    """Reformat a symbol file, or check its format.

    The graph stays as it is, unknown keys and order of nodes included. --layout mxnet is MXNet's
    own layout to the byte. --format chooses the form of the report of --check.
    """
    # Without the stem: several parameter files beside the graph need no choice
    source = load(graph if graph == "-" else graph_path(graph)[0])
    result = lay_out(source, layout)
    if check:
        with locate_refusals(source):
            changes = b"".join(write_symbol(result.graph)) != source.data
        if (format_ or default_format()) != "text":
            report = layout_report(source.where, layout or "", changes=changes)
            put_report(report, format_)
            return report.exit_code()
        say(f"{source.where}: {'would change' if changes else 'has this layout already'}")
        return int(changes)
    # The parameters stay where they are
    result = msgspec.structs.replace(result, parameter_file=None)
    outputs = resolve_outputs(result, out, in_place=in_place)
    warn(list(find_stale(outputs, result)))
    if outputs.graph == "-":
        refuse_terminal()
    write_outputs(outputs, result)
    say_written(outputs)
    return 0
