"""``inspect``: the facts of a graph as plain data, described by ``schemas/inspect.schema.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from graphshare.analysis.name_lists import NameLists, list_implied_variables
from graphshare.analysis.roles import Role, assign_implied_role, assign_roles
from graphshare.formats.model_format import find_format
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
    """The facts of a graph; the lists are MXNet's, in its order. ``parameters`` has each node once.

    Weights in functions of an ONNX model come last in ``parameters``, although not nodes of the
    graph.

    ``nodes`` counts the format's own nodes (in ONNX no inputs and no initializers), ``ops`` the
    operators by kind; ``implied`` are variables without nodes that MXNet would add while loading,
    auxiliary states in real files. ``shaped`` has shapes, parameter counts and multiply-adds; None
    without any shape, or if the files contradict each other (see ``contradiction``).
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
    """The names for MXNet's ``Module``; ``state_names`` are RNN states, neither data nor labels."""

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
            *(record.full_name for record in find_format(graph).bodies.index_functions(graph)),
        ],
        implied=[name for name, _ in implied],
        ops=dict(Counter(node.op for node in graph.nodes if not node.is_variable).most_common()),
        roles=variables,
    )


def list_module_names(graph: Graph, *, held: frozenset[str] | None = None) -> ModuleNames:
    """Return the names for ``mx.mod.Module(symbol, data_names, label_names, state_names)``."""
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
