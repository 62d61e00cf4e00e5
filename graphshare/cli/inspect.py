"""``graphshare inspect``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from graphshare.checkpoint.load import Checkpoint, load_checkpoint, refusals_of
from graphshare.checkpoint.parameter_plan import held_names, notes_on
from graphshare.cli import options
from graphshare.cli.console import put, put_json, say
from graphshare.inspection.graph import Inspection, list_module_names
from graphshare.inspection.graph import inspect as inspect_graph
from graphshare.text.format import format_dims

if TYPE_CHECKING:
    from graphshare.execute.shape_report import Shaped


@click.command
@options.GRAPH
@options.epoch
@options.params
@options.format_
@options.as_input
@options.as_parameter
@options.shapes
@click.option("--module", is_flag=True, help="Print data_names and label_names for MXNet's Module.")
def inspect(
    graph: str,
    epoch: int | None,
    params: str | None,
    format_: str,
    as_input: tuple[str, ...],
    as_parameter: tuple[str, ...],
    shapes: tuple[str, ...],
    module: bool,
) -> None:
    """Show arguments, states, outputs, operators and roles.

    The lists are MXNet's own, in MXNet's order. With --shape also the shape and type of every output, parameter counts and
    multiply-adds by operator.
    """
    source = load_checkpoint(graph, epoch=epoch, params=params)
    held = held_names(source.params)
    for note in notes_on(source.params, source.graph):
        say(note, style="warning")
    if module:
        names = list_module_names(source.graph, held=held)
        put_json(names) if format_ == "json" else put(f"{k}={v!r}" for k, v in msgspec.structs.asdict(names).items())
        return
    found = inspect_graph(source.graph, held=held, as_input=as_input, as_parameter=as_parameter)
    shaped = _shaped(source, shapes, as_input, as_parameter) if shapes else None
    if format_ == "json":
        put_json(found if shaped is None else {**msgspec.structs.asdict(found), "shaped": shaped})
        return
    put(_lines(found))
    if shaped is not None:
        put(_shaped_lines(shaped))


def _shaped(source: Checkpoint, shapes: tuple[str, ...], as_input: tuple[str, ...], as_parameter: tuple[str, ...]) -> Shaped:
    from graphshare.execute.feeds import parse_shapes
    from graphshare.execute.shape_report import shape_graph  # brings numpy along

    given = parse_shapes(shapes)
    with refusals_of(source):
        return shape_graph(source.graph, given, params=source.params, as_input=as_input, as_parameter=as_parameter)


def _shaped_lines(found: Shaped) -> Iterator[str]:
    if found.unsupported:
        yield f"without shapes    {', '.join(found.unsupported)}: nothing here can compute them"
    yield "shapes"
    width = max((len(output.name) for output in found.outputs), default=0)
    for output in found.outputs:
        yield f"  {output.name:{width}}  {format_dims(output.shape):16}  {output.dtype or '?'}"
    yield f"parameter count   {_count(found.totals.parameters)}, auxiliary states {_count(found.totals.auxiliary)}"
    yield f"multiply-adds     {_count(found.totals.multiply_adds)}"
    width = max((len(op) for op in found.totals.operators), default=0)
    for op, of in sorted(found.totals.operators.items(), key=lambda item: -(item[1].multiply_adds or 0)):
        numbers = f"{of.nodes:5} nodes  {of.parameters:13,} parameters"
        yield f"  {op:{width}}  {numbers}  {_count(of.multiply_adds):>15} multiply-adds"


def _count(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


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
