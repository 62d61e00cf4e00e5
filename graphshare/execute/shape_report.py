"""The shapes, types and costs of a graph for given input shapes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from graphshare.analysis.cost import Totals, totals
from graphshare.analysis.name_lists import internals
from graphshare.analysis.roles import Kind, assign_roles
from graphshare.analysis.shapes import Inference, infer
from graphshare.checkpoint.parameter_plan import held_names
from graphshare.execute.feeds import GivenShape, for_variables
from graphshare.execute.plan import without_kernel
from graphshare.formats.mxnet.document import operator_text
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import post_order
from graphshare.rewrite.upgrade import upgrade


class ShapedOutput(msgspec.Struct, frozen=True):
    """An output of a node by MXNet's name. ``shape`` is None while even its rank is unknown; so is an unknown dimension."""

    name: str
    op: str
    shape: tuple[int | None, ...] | None
    dtype: str | None


class Shaped(msgspec.Struct, frozen=True):
    """``outputs`` of every node that the heads need, variables too; ``unsupported`` operators, which let no shape through."""

    outputs: list[ShapedOutput]
    totals: Totals
    unsupported: list[str]


def shape_graph(
    graph: Graph,
    shapes: Mapping[str, GivenShape],
    *,
    params: ParameterFile | None = None,
    as_input: tuple[str, ...] = (),
    as_parameter: tuple[str, ...] = (),
) -> Shaped:
    """What follows for every output of ``graph`` from the ``shapes`` of variables, by name, and those in ``params``.

    A file of an older generation is taken as MXNet reads it, with the variables that it implies.

    Raises:
        RefusedError: a name that no variable bears; shapes that contradict each other.
    """
    part = graph
    if (graph.version or 0) < 10901 and not without_kernel(post_order(entry.node for entry in graph.heads)):
        part = upgrade(graph, keep_amp_cast=True).graph
    nodes = post_order(entry.node for entry in part.heads)
    variables = [node for node in nodes if node.is_variable]
    idle = {node.name for node in graph.variables()} - {node.name for node in variables}
    roles = assign_roles(part, held=held_names(params), as_input=as_input, as_parameter=as_parameter)
    given = for_variables({k: v for k, v in shapes.items() if k not in idle}, variables, option="--shape")
    held = _held(variables, params, {node for node in variables if roles[node].kind is Kind.AUXILIARY})
    known = {**{node: shape for node, (shape, _) in held.items()}, **given}
    found = infer(part, known, {node: dtype for node, (_, dtype) in held.items()}, nodes=nodes)
    missing = list(dict.fromkeys(fault.message.split()[1] for fault in without_kernel(nodes)))
    return Shaped(list(_outputs(found)), totals(found, roles), missing)


def _outputs(found: Inference) -> list[ShapedOutput]:
    listed = []
    for name, entry in internals(found.nodes):
        shapes, types = found.shapes[entry.node], found.types[entry.node]
        shape = shapes[entry.index] if entry.index < len(shapes) else None
        listed.append(
            ShapedOutput(name, operator_text(entry.node), shape, types[entry.index] if entry.index < len(types) else None)
        )
    return listed


def _held(variables: list[Node], params: ParameterFile | None, auxiliary: set[Node]) -> dict[Node, tuple[GivenShape, str]]:
    """Shape and type of the variables that a parameter file holds; bfloat16 is read as float32."""
    records = RecordsByName(params) if params is not None else None
    found: dict[Node, tuple[GivenShape, str]] = {}
    for node in variables if records is not None else ():
        record = records.of(node, auxiliary=node in auxiliary) if records is not None else None
        if record is not None and record.shape is not None:
            found[node] = (record.shape, "float32" if record.dtype == "bfloat16" else record.dtype or "float32")
    return found


def known_shapes(
    graph: Graph, shapes: Mapping[str, GivenShape], *, params: ParameterFile | None = None
) -> dict[tuple[Node, int], tuple[int, ...]]:
    """The shapes of outputs that follow in full from ``shapes`` and ``params``, by node of ``graph`` and output.

    Raises:
        RefusedError: a name that no variable bears; shapes that contradict each other.
    """
    part, now = graph, dict[Node, Node]()
    if (graph.version or 0) < 10901 and not without_kernel(post_order(entry.node for entry in graph.heads)):
        rewrite = upgrade(graph, keep_amp_cast=True)
        part, now = rewrite.graph, dict(rewrite.branches[0].images)
    nodes = post_order(entry.node for entry in part.heads)
    variables = [node for node in nodes if node.is_variable]
    roles = assign_roles(part, held=held_names(params))
    given = for_variables(shapes, variables, option="--shape")
    held = _held(variables, params, {node for node in variables if roles[node].kind is Kind.AUXILIARY})
    known = {**{node: shape for node, (shape, _) in held.items()}, **given}
    found = infer(part, known, {node: dtype for node, (_, dtype) in held.items()}, nodes=nodes)
    return {
        (node, i): tuple(size for size in shape if size is not None)
        for node in graph.nodes
        for i, shape in enumerate(found.shapes.get(now.get(node, node), ()))
        if shape is not None and None not in shape
    }
