"""``graphshare inspect``."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from graphshare.cli import options
from graphshare.cli.console import put, put_json, say
from graphshare.workflows.checkpoint import load_checkpoint
from graphshare.workflows.inspect import Inspection, module_names
from graphshare.workflows.inspect import inspect as inspect_graph
from graphshare.workflows.parameters import held_names, notes_on


@click.command
@options.GRAPH
@options.epoch
@options.params
@options.format_
@options.as_input
@options.as_parameter
@click.option("--module", is_flag=True, help="Print data_names and label_names for MXNet's Module.")
def inspect(
    graph: str,
    epoch: int | None,
    params: str | None,
    format_: str,
    as_input: tuple[str, ...],
    as_parameter: tuple[str, ...],
    module: bool,
) -> None:
    """Show arguments, states, outputs, operators and roles.

    The lists are MXNet's own, in MXNet's order.
    """
    source = load_checkpoint(graph, epoch=epoch, params=params)
    held = held_names(source.params)
    for note in notes_on(source.params, source.graph):
        say(note, style="warning")
    if module:
        names = module_names(source.graph, held=held)
        put_json(names) if format_ == "json" else put(f"{k}={v!r}" for k, v in msgspec.structs.asdict(names).items())
        return
    found = inspect_graph(source.graph, held=held, as_input=as_input, as_parameter=as_parameter)
    put_json(found) if format_ == "json" else put(_lines(found))


def _lines(found: Inspection) -> Iterator[str]:
    yield f"generation        {found.generation}"
    yield f"mxnet_version     {found.mxnet_version if found.mxnet_version is not None else 'none (MXNet takes it for 0.8.0)'}"
    yield f"nodes             {found.nodes}"
    yield f"operators         {', '.join(f'{op} {count}' for op, count in found.ops.items()) or 'none'}"
    for title, names in (
        ("arguments", found.arguments),
        ("outputs", found.outputs),
        ("inputs", found.inputs),
        ("auxiliary states", found.auxiliary_states),
        ("implied states", found.implied),
    ):
        yield f"{title:17} {', '.join(names) or 'none'}"
    yield f"parameters        {len(found.parameters)}"
    yield "variables"
    width = max((len(role.name) for role in found.roles), default=0)
    for role in found.roles:
        yield f"  {role.name:{width}}  {role.kind:9}  {role.reason}"
