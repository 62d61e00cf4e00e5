"""``graphshare foreach``."""

from __future__ import annotations

from typing import Any

import click

from graphshare.cli import options
from graphshare.cli.command import Command
from graphshare.cli.fleet import foreach, refuse_misspelt
from graphshare.cli.fleet_report import FORMATS, report_results


class _TakesCommand(Command):
    """A command whose words after ``--`` are another command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        if not ctx.resilient_parsing and "--help" not in args[:at]:
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
        ("findings in all models, as one report", "graphshare foreach '*-symbol.json' -- check {}"),
    ],
}


@click.command("foreach", cls=_TakesCommand)
@click.argument("patterns", metavar="PATTERN...", nargs=-1, required=True)
@options.exclude
@click.option("-o", "--out", metavar="DEST", help="The folder of all outputs; each keeps its relative path and file name.")
@click.option("--jobs", type=click.IntRange(min=1, max=1024), default=1, metavar="N", help="Run N models at a time [1].")
@click.option("--scheduler", metavar="ADDRESS", default="", help="Run on the workers of a Dask cluster, as tcp://HOST:8786.")
@click.option("--shared-filesystem", is_flag=True, help="The workers of the cluster see the same files under the same paths.")
@click.option("--manifest", metavar="FILE", help="Append a line for each model; run again, finished ones are skipped.")
@click.option("--retry", is_flag=True, help="Run only what has failed, by the manifest.")
@click.option("--force", is_flag=True, help="Run every model, whatever the manifest says.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="S", help="A model that takes more seconds has failed."
)
@click.option("--max-memory", metavar="SIZE", help="A model that would take more than this, as in 2G, has failed.")
@click.option("--report", "report_format", type=click.Choice(FORMATS), default="text", help="How to print the results [text].")
def command(patterns: tuple[str, ...], words: list[str], report_format: str, **settings: Any) -> int:
    """Run a command for every model that matches.

    PATTERN is a glob, a stem, a folder or a file; it matches symbol files, each with its newest parameter file, and .onnx
    files. In COMMAND {} stands for the model, {stem} for its path without -symbol.json, {name} for the last part of that.

    Files of the results go below DEST, where the model is below the fixed part of its PATTERN; foreach itself gives COMMAND its
    -o, --params-out and --map-out. A command that writes nothing needs no DEST.

    A model that fails does not end the others. The exit code is 0 if all are done, 1 if an answer was no, 2 if one has failed.
    """
    return report_results(foreach(patterns, words, **settings), report_format)
