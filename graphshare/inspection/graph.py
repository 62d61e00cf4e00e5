"""``inspect``: the facts of a graph as plain data, described by ``schemas/inspect.schema.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from graphshare.analysis.name_lists import NameLists, list_implied_variables
from graphshare.analysis.roles import Role, assign_implied_role, assign_roles
from graphshare.checkpoint.load import (
    Model,
    Names,
    Shapes,
    as_checkpoint,
    as_names,
    as_shapes,
    check_roles,
    find_roles,
)
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import RefusedError, locate_refusals
from graphshare.formats.model_format import Operation, find_format, require
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import consumers
from graphshare.text.format import format_names
from graphshare.text.summary import ShortRepr, Table, format_html

if TYPE_CHECKING:
    from graphshare.execute.prepare.shape_report import Shaped


class VariableRole(msgspec.Struct, frozen=True):
    """A variable, its kind and the reason; ``consumers`` counts the inputs it feeds. Implied ones
    have no ``id``.
    """

    id: int | None
    name: str
    kind: str
    reason: str
    consumers: int


class Inspection(ShortRepr, msgspec.Struct, frozen=True):
    """The facts of a graph; the lists are MXNet's, in its order. ``parameters`` contains each
    parameter node once.

    Weights in functions of an ONNX model come last in ``parameters``; they are not nodes of the
    graph.

    ``nodes`` counts the format's own nodes (in ONNX no inputs and no initializers), ``ops``
    the operators by kind; ``implied`` are the variables without nodes that MXNet would add while
    loading, auxiliary states in real files. ``shaped`` has shapes, parameter counts and
    multiply-adds. It is None without any given or stored shape, or if the files contradict each
    other; ``contradiction`` then says why.
    """

    generation: str
    mxnet_version: int | None
    nodes: int
    arguments: list[str]
    auxiliary_states: list[str]
    outputs: list[str]
    inputs: list[str]
    parameters: list[str]
    implied: list[str]
    ops: dict[str, int]
    roles: list[VariableRole]
    shaped: Shaped | None = None
    contradiction: str = ""

    def _repr_html_(self) -> str:
        lists = [
            ("inputs", self.inputs),
            ("parameters", self.parameters),
            ("outputs", self.outputs),
            ("implied", self.implied),
        ]
        facts = [
            ("generation", self.generation),
            *((what, format_names(names)) for what, names in lists),
        ]
        rows = [(op, f"{count:,}") for op, count in self.ops.items()]
        return format_html(
            f"{self.nodes:,} nodes", facts=facts, tables=[Table(("operator", "count"), rows)]
        )


class ModuleNames(msgspec.Struct, frozen=True):
    """The names that MXNet's ``Module`` needs; ``state_names`` are RNN states that are neither data
    nor labels.
    """

    data_names: list[str]
    label_names: list[str]
    state_names: list[str]


def list_facts(graph: Graph, roles: Mapping[Node, Role]) -> Inspection:
    """Return the facts of ``graph``."""
    lists = NameLists(graph)
    ids = {node: i for i, node in enumerate(graph.nodes)}
    uses = consumers(graph.nodes)
    implied = [
        (variable.name, assign_implied_role(variable)) for variable in list_implied_variables(graph)
    ]
    variables = [
        VariableRole(ids[n], n.name, role.kind.value, role.reason, len(uses.get(n, ())))
        for n, role in roles.items()
    ]
    variables += [
        VariableRole(None, name, role.kind.value, role.reason, 1) for name, role in implied
    ]
    named_roles = _pair_with_roles(lists, roles, dict(implied))
    return Inspection(
        generation=find_format(graph).describe(graph),
        mxnet_version=graph.version,
        nodes=graph.source.count_parts(graph.nodes)["node"],
        arguments=lists.arguments,
        auxiliary_states=lists.auxiliary_states,
        outputs=lists.outputs,
        inputs=[name for name, role in named_roles if not role.is_parameter],
        parameters=[
            *(name for name, role in named_roles if role.is_parameter),
            *(record.key or "" for record in find_format(graph).bodies.index_functions(graph)),
        ],
        implied=[name for name, _ in implied],
        ops=dict(Counter(node.op for node in graph.nodes if not node.is_variable).most_common()),
        roles=variables,
    )


def list_module_names(graph: Graph, *, held: frozenset[str] | None = None) -> ModuleNames:
    """Return the names that ``mx.mod.Module(symbol, data_names, label_names, state_names)`` needs."""
    roles = assign_roles(graph, held=held)
    implied = {
        variable.name: assign_implied_role(variable) for variable in list_implied_variables(graph)
    }
    inputs = [
        (name, role)
        for name, role in _pair_with_roles(NameLists(graph), roles, implied)
        if not role.is_parameter
    ]

    def select_names(*, is_label: bool, is_state: bool) -> list[str]:
        return list(
            dict.fromkeys(
                n for n, role in inputs if role.is_label == is_label and role.is_state == is_state
            )
        )

    return ModuleNames(
        data_names=select_names(is_label=False, is_state=False),
        label_names=select_names(is_label=True, is_state=False),
        state_names=select_names(is_label=False, is_state=True),
    )


def _pair_with_roles(
    lists: NameLists, roles: Mapping[Node, Role], implied: Mapping[str, Role]
) -> list[tuple[str, Role]]:
    return [
        (v.name, roles[v.node] if v.node is not None else implied[v.name]) for v in lists.variables
    ]


def inspect(
    model: Model, *, shapes: Shapes | None = None, as_input: Names = (), as_parameter: Names = ()
) -> Inspection:
    """List arguments, states, outputs, operators and roles; the lists are MXNet's own, in MXNet's
    order.

    With ``shapes``, ``shaped`` has the shape of every output, layers, parameter counts and
    multiply-adds, as far as they follow from ``shapes``, the parameter file and the graph's own
    annotations. With empty ``shapes`` only the files count; the batch is then 1 if it is the only
    unknown. For an ONNX model ``shaped`` has the shapes that the file states or ONNX infers.

    Raises:
        RefusedError: the parameter file's records have no names; a name in ``shapes`` is not a
            variable; ``shapes`` contradict the files or each other.
    """
    source = as_checkpoint(model)
    with locate_refusals(source):
        roles = find_roles(source, as_input, as_parameter)
    facts = list_facts(source.graph, roles)
    if shapes or (shapes is not None and find_format(source.graph).types.are_stated):
        return msgspec.structs.replace(
            facts, shaped=infer_shapes(source, shapes, as_input=as_input, as_parameter=as_parameter)
        )
    declared = any("__shape__" in node.attrs for node in source.graph.variables())
    if shapes is None or not (declared or source.parameter_file is not None):
        return facts  # without any shape there is nothing to infer, so numpy is not imported
    try:
        shaped = _infer_shapes(
            source, {}, as_names(as_input), as_names(as_parameter), one_sample=True
        )
    except RefusedError as error:
        return msgspec.structs.replace(facts, contradiction=str(error.faults[0]))
    return msgspec.structs.replace(facts, shaped=shaped)


def infer_shapes(
    model: Model, shapes: Shapes, *, as_input: Names = (), as_parameter: Names = ()
) -> Shaped:
    """Infer the shape and dtype of every output, and count parameters and multiply-adds by layer
    and operator.

    Raises:
        RefusedError: a name is not a variable; shapes contradict each other; the model's operators
            are unknown.
    """
    return _infer_shapes(as_checkpoint(model), shapes, as_names(as_input), as_names(as_parameter))


def _infer_shapes(
    source: Checkpoint,
    shapes: Shapes,
    as_input: tuple[str, ...],
    as_parameter: tuple[str, ...],
    *,
    one_sample: bool = False,
) -> Shaped:
    from graphshare.execute.prepare.shape_report import shape_graph  # start-up: imports numpy

    if shapes:
        require(source.graph, Operation.SHAPES, what="`shapes`", where=source.where)
    with locate_refusals(source):
        check_roles(source.graph.variables(), as_input, as_parameter)
        return shape_graph(
            source.graph,
            as_shapes(shapes, source.graph),
            params=source.parameter_file,
            as_input=as_input,
            as_parameter=as_parameter,
            one_sample=one_sample,
        )
