"""``graphshare params``: the parameter files by themselves."""

from __future__ import annotations

import click

from graphshare.cli import options
from graphshare.cli.console import put_json, say, visible
from graphshare.workflows.params_files import ParameterListing, convert_params, list_params


@click.group
def params() -> None:
    """List and convert parameter files."""


@params.command("list")
@click.argument("file", metavar="FILE")
@options.format_
def list_(file: str, format_: str) -> None:
    """Show what a parameter file holds, without reading an array."""
    found = list_params(file)
    for remark in found.remarks:
        say(str(remark), style="warning")
    if format_ == "json":
        put_json(found)
    else:
        _print_table(found)


@params.command("convert")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option("--to", type=click.Choice(["params", "npz", "safetensors"]), help="The target's format [by its suffix].")
@click.option("--densify", is_flag=True, help="Write sparse arrays in dense form where the target has no sparse one.")
@click.option("--np-shape", is_flag=True, help="Write V3 records, which MXNet reads with np-shape on.")
def convert(source: str, target: str, to: str | None, densify: bool, np_shape: bool) -> None:
    """Convert a parameter file; keys keep their arg: and aux: in every format."""
    done = convert_params(source, target, to=to, densify=densify, np_shape=np_shape)  # type: ignore[arg-type]
    say(f"wrote {target}: {len(done.source.records)} arrays as {done.format}")
    for key in done.densified:
        say(f"{key!r} was sparse and is dense now", style="warning")


def _print_table(found: ParameterListing) -> None:
    for array in found.arrays:
        shape = "never filled" if array.shape is None else "x".join(map(str, array.shape)) or "scalar"
        storage = "" if array.storage == "default" else f" {array.storage}"
        key = "(no name)" if array.key is None else visible(array.key)
        click.echo(f"{key}\t{array.dtype}\t{shape}\t{array.layout}{storage}")
    say(f"{len(found.arrays)} arrays, {found.data_size:,} bytes of data in {found.size:,}")
