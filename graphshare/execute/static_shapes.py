"""The part of a graph that some outputs need, upgraded, with every shape and dtype known: from headers, without any array."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from graphshare.analysis.roles import Role, assign_roles
from graphshare.analysis.shapes import Inference, choose_sizes, infer
from graphshare.analysis.targets import resolve_targets
from graphshare.checkpoint.parameters import check_belongs, list_parameter_names
from graphshare.errors import RefusedError
from graphshare.execute.feeds import GivenShape, for_variables, read_recorded_shapes
from graphshare.execute.prepare import describe_sizes, refuse_missing, runnable_part
from graphshare.execute.variable_values import infer_given, unknown_shapes
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import post_order


class StaticPart(msgspec.Struct, frozen=True, eq=False):
    """A part with its inference; ``notes`` tell the user what was decided for them."""

    part: Graph
    inference: Inference
    roles: Mapping[Node, Role]
    notes: Sequence[str]


def infer_part(
    graph: Graph,
    *,
    params: ParameterFile | None,
    shapes: Mapping[str, GivenShape],
    types: Mapping[str, str],
    targets: Sequence[str],
    as_input: Collection[str] = (),
) -> StaticPart:
    """Return what ``targets``, or the heads, need, with all shapes.

    ``shapes`` and dtypes ``types`` are those of inputs by name; parameters have those of the file's records. Sizes that a shape
    leaves open are chosen where nothing determines them.

    Raises:
        UnsupportedError: operators without a kernel; all are listed.
        RefusedError: shapes contradict each other or do not follow, parameters are missing, names are not in the graph; all of
            a kind are listed.
    """
    check_belongs(params, graph)
    heads = resolve_targets(targets, graph.nodes, option="`upto`") if targets else graph.heads
    part, notes = runnable_part(graph, heads)
    roles = assign_roles(part, held=list_parameter_names(params), as_input=as_input)
    nodes = post_order(entry.node for entry in part.heads)
    variables = [node for node in nodes if node.is_variable]
    idle = {node.name for node in graph.variables()} - {node.name for node in variables}
    given = for_variables({k: v for k, v in shapes.items() if k not in idle}, variables, option="`shapes`")
    stated = for_variables({k: v for k, v in types.items() if k not in idle}, variables, option="`feeds`")
    held = read_recorded_shapes(variables, params, roles)
    missing = [n for n in variables if roles[n].is_parameter and n not in held]
    refuse_missing(missing, roles, 0, None, params, hint="name the parameter file with `params`; `as_input` makes it an input")
    types_held = {node: dtype for node, (_, dtype) in held.items()}
    shapes_held = {node: shape for node, (shape, _) in held.items()}
    inference = infer_given(part, shapes_held, given, types_held, nodes=nodes, yielding=stated)
    _, examples = choose_sizes(part, {**shapes_held, **given}, types_held, nodes, inference)
    if examples and any(None in shape for shape in given.values()):
        inference = infer(part, {**shapes_held, **given, **examples}, types_held, nodes=nodes, yielding=stated)
        notes += describe_sizes(examples)
    faults = unknown_shapes(inference, [n for n in variables if not roles[n].is_label], examples)
    faults = faults or unknown_shapes(inference, variables, examples)
    if faults:
        raise RefusedError(faults)
    return StaticPart(part, inference, roles, notes)
