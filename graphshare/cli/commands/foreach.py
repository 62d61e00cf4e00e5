"""``graphshare foreach``."""

from __future__ import annotations

import click

from graphshare.cli import options
from graphshare.cli.command import Command
from graphshare.cli.fleet import foreach, refuse_misspelt
from graphshare.cli.fleet_report import FORMATS, report_results

_COMMAND = "graphshare.foreach.command"


class _TakesCommand(Command):
    """A command whose words after ``--`` are another command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[at + 1 :]
        if not ctx.resilient_parsing and "--help" not in args[:at]:
            refuse_misspelt(args[:at], args[at + 1 :])
        return super().parse_args(ctx, args[:at])

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
@click.option("--scheduler", metavar="ADDRESS", help="Run on the workers of a Dask cluster, as tcp://HOST:8786.")
@click.option("--shared-filesystem", is_flag=True, help="The workers of the cluster see the same files under the same paths.")
@click.option("--manifest", metavar="FILE", help="Append a line for each model; run again, finished ones are skipped.")
@click.option("--retry", is_flag=True, help="Run only what has failed, by the manifest.")
@click.option("--force", is_flag=True, help="Run every model, whatever the manifest says.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="S", help="A model that takes more seconds has failed."
)
@click.option("--max-memory", metavar="SIZE", help="A model that would take more than this, as in 2G, has failed.")
@click.option("--report", "report_format", type=click.Choice(FORMATS), default="text", help="How to print the results [text].")
@click.pass_context
def command(
    ctx: click.Context,
    patterns: tuple[str, ...],
    exclude: tuple[str, ...],
    out: str | None,
    jobs: int,
    scheduler: str | None,
    shared_filesystem: bool,
    manifest: str | None,
    retry: bool,
    force: bool,
    time_limit: float | None,
    max_memory: str | None,
    report_format: str,
) -> int:
    """Run a command for every model that matches.

    PATTERN is a glob, a stem, a folder or a file; it matches symbol files, each with its newest parameter file, and .onnx
    files. In COMMAND {} stands for the model, {stem} for its path without -symbol.json, {name} for the last part of that.

    Files of the results go below DEST, where the model is below the fixed part of its PATTERN; foreach itself gives COMMAND its
    -o, --params-out and --map-out. A command that writes nothing needs no DEST.

    A model that fails does not end the others. The exit code is 0 if all are done, 1 if an answer was no, 2 if one has failed.
    """
    results = foreach(
        patterns,
        ctx.meta[_COMMAND],
        out=out,
        jobs=jobs,
        scheduler=scheduler or "",
        shared_filesystem=shared_filesystem,
        manifest=manifest,
        retry=retry,
        force=force,
        exclude=exclude,
        time_limit=time_limit,
        max_memory=max_memory,
    )
    return report_results(results, report_format)
