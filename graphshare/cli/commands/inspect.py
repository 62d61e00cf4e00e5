"""``graphshare inspect``."""

from __future__ import annotations

import click
import msgspec

from graphshare.api.inspect import inspect
from graphshare.checkpoint.load import load
from graphshare.checkpoint.parameter_plan import notes_on
from graphshare.cli import options
from graphshare.cli.command import Command
from graphshare.cli.console import put, put_json
from graphshare.cli.folder_lines import is_folder, put_folder, refuse_options
from graphshare.cli.inspection_lines import is_fully_shaped, list_fields, put_inspection
from graphshare.cli.output import warn
from graphshare.inspection.graph import list_module_names

EXAMPLES = {
    "inspect": [
        ("what is in it", "graphshare inspect lenet"),
        ("shapes and multiply-adds", "graphshare inspect lenet --shape data=1,1,28,28"),
        ("all models of a folder", "graphshare inspect ."),
    ],
}


@click.command("inspect", cls=Command)
@options.GRAPH
@options.epoch
@options.params
@click.option("--format", "format_", type=click.Choice(["text", "json", "jsonl"]), default="text", help="How to print [text].")
@options.as_input
@options.as_parameter
@options.shapes
@click.option("--names", is_flag=True, help="Print all lists of names, the kind of each variable and every shape.")
@click.option("--module", is_flag=True, help="Print data_names and label_names for MXNet's Module.")
def command(
    graph: str,
    epoch: int | None,
    params: str | None,
    format_: str,
    as_input: tuple[str, ...],
    as_parameter: tuple[str, ...],
    shapes: tuple[str, ...],
    names: bool,
    module: bool,
) -> int:
    """Sum up inputs, outputs, parameters, costs and layers.

    Shapes follow from --shape, the parameter file and what the graph declares; where they determine everything, a table shows
    each layer. --names adds MXNet's lists of names, in MXNet's order, and why a variable is an input or a parameter. As JSON
    everything is printed.

    Of a folder each `*-symbol.json` below it gets a line, with the newest of its parameter files; the exit code is 2 if one of
    them cannot be read.
    """
    if is_folder(graph):
        single = {"--epoch": epoch is not None, "--params": params, "--as-input": as_input, "--as-parameter": as_parameter,
                  "--shape": shapes, "--names": names, "--module": module}  # fmt: skip
        refuse_options([option for option, given in single.items() if given], graph)
        return put_folder(graph, format_)
    model = load(graph, epoch=epoch, params=params)
    warn(notes_on(model.parameter_file, model.graph))
    if module:
        found_names = list_module_names(model.graph, held=model.held)
        lines = (f"{k}={v!r}" for k, v in msgspec.structs.asdict(found_names).items())
        put_json(found_names, lines=format_ == "jsonl") if format_ != "text" else put(lines)
        return 0
    given = {}
    if shapes:
        from graphshare.execute.feeds import parse_shapes  # brings numpy along

        given = parse_shapes(shapes)
    found = inspect(model, shapes=given, as_input=as_input, as_parameter=as_parameter)
    if format_ != "text":
        put_json(list_fields(found), lines=format_ == "jsonl")
        return 0
    put_inspection(found, model, with_layers=bool(shapes) or is_fully_shaped(found), with_names=names)
    return 0
