"""Shapes, dtypes and costs of a graph for given input shapes, without any array."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.cost import Totals, totals
from graphshare.analysis.name_lists import internals, resolve_targets
from graphshare.analysis.roles import Role, assign_roles
from graphshare.checkpoint.parameters import check_belongs, list_parameter_names
from graphshare.errors import RefusedError
from graphshare.execute.plan import list_without_kernels
from graphshare.execute.prepare.assignment import refuse_missing
from graphshare.execute.prepare.declared_inputs import infer_by_format
from graphshare.execute.prepare.feeds import GivenShape, T, for_variables, read_recorded_shapes
from graphshare.execute.prepare.prepare import describe_sizes, runnable_part, upgrade_part
from graphshare.execute.prepare.variable_values import (
    find_idle_labels,
    infer_given,
    refuse_unknown_shapes,
)
from graphshare.formats.model_format import find_format
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import VARIABLE_OP, Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference, choose_sizes, infer
from graphshare.ops.unification import is_known
from graphshare.text.format import format_dims, format_names
from graphshare.text.summary import ShortRepr, Table, format_html


class ShapedOutput(msgspec.Struct, frozen=True):
    """A node's output by MXNet's name. An unknown ``shape`` or dimension is None; ONNX may name a dimension."""

    name: str
    op: str
    shape: tuple[int | str | None, ...] | None
    dtype: str | None


class Shaped(ShortRepr, msgspec.Struct, frozen=True):
    """``outputs`` of every needed node, variables too; no shape passes ``unsupported`` operators.

    ``samples`` names the inputs whose undetermined batch was taken as 1.
    """

    outputs: list[ShapedOutput]
    totals: Totals
    unsupported: list[str]
    samples: list[str] = []

    def _repr_html_(self) -> str:
        counts = [
            ("parameters", self.totals.parameters),
            ("multiply-adds", self.totals.multiply_adds),
        ]
        facts = [(what, "unknown" if count is None else f"{count:,}") for what, count in counts]
        facts += [
            ("operators of unknown shape", format_names(self.unsupported)),
            ("batch of 1", format_names(self.samples)),
        ]
        rows: list[tuple[str, ...]] = []
        for output in self.outputs:
            op = "variable" if output.op == VARIABLE_OP else output.op
            rows.append((output.name, op, format_dims(output.shape), output.dtype or "?"))
        table = Table(("output", "operator", "shape", "dtype"), rows)
        return format_html(self._summary(), facts=facts, tables=[table])


def shape_graph(
    graph: Graph,
    shapes: Mapping[str, GivenShape],
    *,
    params: ParameterFile | None = None,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
    one_sample: bool = False,
) -> Shaped:
    """Return the shapes of all outputs that follow from ``shapes`` of variables, by name, and
    ``params``.

    A file of an older generation is upgraded as in MXNet, with its implied variables. With
    ``one_sample`` an input's first size is 1 if only that is unknown.

    Raises:
        RefusedError: a name of ``shapes`` belongs to no variable; shapes contradict each other.
    """
    part, _, _ = upgrade_part(graph, graph.heads)
    # Shapes of unneeded variables are accepted, and not used.
    shapes = _leave_out(shapes, _list_idle(graph, part.variables()))
    roles = assign_roles(
        part, held=list_parameter_names(params), as_input=as_input, as_parameter=as_parameter
    )
    inference = _infer(part, roles, shapes, params)
    samples = _shape_samples(inference, roles) if one_sample else {}
    if samples:
        try:
            inference = _infer(part, roles, {**shapes, **samples}, params)
        # A batch of 1 contradicts inner sizes.
        except RefusedError:
            samples = {}
    missing: dict[str, None] = {}
    if not find_format(graph).types.are_stated:
        missing = dict.fromkeys(node.op for node, _ in list_without_kernels(inference.nodes))
    return Shaped(_outputs(inference), totals(inference, roles), list(missing), list(samples))


def _shape_samples(inference: Inference, roles: Mapping[Node, Role]) -> dict[str, GivenShape]:
    """Return the inputs' shapes with a batch of 1; empty if one lacks more."""
    samples: dict[str, GivenShape] = {}
    for node, role in roles.items():
        if role.is_parameter or role.is_label or node not in inference.shapes:
            continue
        shape = inference.shapes[node][0]
        if is_known(shape):
            continue
        if shape is None or None in shape[1:]:
            return {}
        samples[node.name] = (1, *shape[1:])
    return samples


def infer_known_shapes(
    graph: Graph, shapes: Mapping[str, GivenShape], *, params: ParameterFile | None = None
) -> dict[tuple[Node, int], tuple[int, ...]]:
    """Return the known shapes of outputs by node and index, with the errors of :func:`shape_graph`.

    Sizes of ONNX models may be names, or unknown.
    """
    part, images, _ = upgrade_part(graph, graph.heads)
    inference = _infer(part, assign_roles(part, held=list_parameter_names(params)), shapes, params)
    may_be_open = find_format(graph).types.are_stated
    known: dict[tuple[Node, int], Any] = {}
    for node in graph.nodes:
        for index, shape in enumerate(inference.shapes.get(images.get(node, node), [])):
            if is_known(shape) or (may_be_open and shape is not None):
                known[node, index] = shape
    return known


def _infer(
    part: Graph,
    roles: Mapping[Node, Role],
    shapes: Mapping[str, GivenShape],
    params: ParameterFile | None,
) -> Inference:
    """Infer from given shapes and a parameter file, or by the format's own inference."""
    nodes = post_order(entry.node for entry in part.heads)
    if find_format(part).types.are_stated:
        return infer_by_format(part, nodes, shapes)
    variables = [node for node in nodes if node.is_variable]
    by_node = for_variables(shapes, variables, option="`shapes`")
    held = read_recorded_shapes(variables, params, roles)
    return infer_given(part, held.shapes, by_node, held.types, nodes=nodes)


def _outputs(inference: Inference) -> list[ShapedOutput]:
    listed = []
    for name, entry in internals(inference.nodes):
        shapes, types = inference.shapes[entry.node], inference.types[entry.node]
        shape = shapes[entry.index] if entry.index < len(shapes) else None
        dtype = types[entry.index] if entry.index < len(types) else None
        listed.append(ShapedOutput(name, entry.node.operator_text, shape, dtype))
    return listed


class StaticPart(msgspec.Struct, frozen=True, eq=False):
    """A part with its inference; ``notes`` list decisions for the user."""

    part: Graph
    inference: Inference
    roles: Mapping[Node, Role]
    notes: Sequence[str]


def _list_idle(graph: Graph, needed: Iterable[Node]) -> set[str]:
    """Return the names of the graph's variables that are not among the ``needed`` ones."""
    return {node.name for node in graph.variables()} - {node.name for node in needed}


def _leave_out(values: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: value for name, value in values.items() if name not in names}


def infer_part(
    graph: Graph,
    *,
    params: ParameterFile | None,
    shapes: Mapping[str, GivenShape],
    types: Mapping[str, str],
    targets: Sequence[str],
    as_input: Collection[str] = (),
) -> StaticPart:
    """Return the part for ``targets``, or the heads, with all shapes.

    ``shapes`` and ``types`` are for inputs by name; parameters have records in the file.
    Undetermined open sizes are chosen.

    Raises:
        UnsupportedError: operators without a kernel; all are listed.
        RefusedError: shapes contradict each other or do not follow, parameters are missing, names
            are not in the graph; all of a kind are listed.
    """
    check_belongs(params, graph)
    heads: Sequence[Entry] = graph.heads
    if targets:
        heads = resolve_targets(targets, graph.nodes, option="`upto`", heads=heads)
    part, notes = runnable_part(graph, heads)
    roles = assign_roles(part, held=list_parameter_names(params), as_input=as_input)
    nodes = post_order(entry.node for entry in part.heads)
    variables = [node for node in nodes if node.is_variable]
    idle = _list_idle(graph, variables)
    by_node = for_variables(_leave_out(shapes, idle), variables, option="`shapes`")
    stated = for_variables(_leave_out(types, idle), variables, option="`feeds`")
    held = read_recorded_shapes(variables, params, roles)
    missing = [node for node in variables if node not in held.shapes]
    refuse_missing(
        missing,
        roles,
        0,
        None,
        params,
        hint="name the parameter file with `params`, or inputs that look like parameters with `as_input`",
    )
    inference = infer_given(part, held.shapes, by_node, held.types, nodes=nodes, yielding=stated)
    unread = find_idle_labels(part, roles)
    _, examples = choose_sizes(inference, unread)
    only_unread = examples.keys() <= set(unread)
    if examples and (only_unread or any(None in shape for shape in by_node.values())):
        complete = {**held.shapes, **by_node, **examples}
        inference = infer(
            part, complete, held.types, nodes=nodes, yielding=stated, held=held.shapes
        )
        notes += describe_sizes(node for node in examples if node not in unread)
    refuse_unknown_shapes(inference, variables, roles, examples)
    return StaticPart(part, inference, roles, notes)
