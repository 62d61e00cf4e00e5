"""``graphshare inspect``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from graphshare.api.inspect import infer_shapes, inspect
from graphshare.checkpoint.load import load
from graphshare.checkpoint.parameter_plan import notes_on
from graphshare.cli import options
from graphshare.cli.console import put, put_json
from graphshare.cli.output import warn
from graphshare.inspection.graph import Inspection, list_module_names
from graphshare.text.format import format_dims

if TYPE_CHECKING:
    from graphshare.execute.shape_report import Shaped


EXAMPLES = {
    "inspect": [
        ("what is in it", "graphshare inspect lenet"),
        ("shapes and multiply-adds", "graphshare inspect lenet --shape data=1,1,28,28"),
    ],
}


@click.command("inspect")
@options.GRAPH
@options.epoch
@options.params
@options.format_
@options.as_input
@options.as_parameter
@options.shapes
@click.option("--module", is_flag=True, help="Print data_names and label_names for MXNet's Module.")
def command(
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
    model = load(graph, epoch=epoch, params=params)
    warn(notes_on(model.parameter_file, model.graph))
    if module:
        names = list_module_names(model.graph, held=model.held)
        put_json(names) if format_ == "json" else put(f"{k}={v!r}" for k, v in msgspec.structs.asdict(names).items())
        return
    found = inspect(model, as_input=as_input, as_parameter=as_parameter)
    shaped = None
    if shapes:
        from graphshare.execute.feeds import parse_shapes  # brings numpy along

        shaped = infer_shapes(model, parse_shapes(shapes), as_input=as_input, as_parameter=as_parameter)
    if format_ == "json":
        put_json(found if shaped is None else {**msgspec.structs.asdict(found), "shaped": shaped})
        return
    put(_lines(found))
    if shaped is not None:
        put(_format_shapes(shaped))


def _format_shapes(found: Shaped) -> Iterator[str]:
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
