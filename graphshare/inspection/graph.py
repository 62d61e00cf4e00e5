"""``inspect``: what a graph is, as plain data. ``schemas/inspect.schema.json`` describes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from graphshare.analysis.implied import implied_variables
from graphshare.analysis.name_lists import NameLists
from graphshare.analysis.roles import Role, assign_roles, implied_role
from graphshare.formats.mxnet.generations import generation
from graphshare.ir.graph import VARIABLE, Graph, Node
from graphshare.ir.walk import consumers


class VariableRole(msgspec.Struct, frozen=True):
    """A variable with what it is and why; ``consumers`` counts the inputs it feeds. ``id`` is None for an implied one."""

    id: int | None
    name: str
    kind: str
    reason: str
    consumers: int


class Inspection(msgspec.Struct, frozen=True):
    """The lists are MXNet's own, in its order. ``parameters`` names each parameter node once, however many consumers it has.

    ``nodes`` counts all nodes of the file; ``ops`` those by operator, variables left out; ``implied`` are the variables
    without nodes that MXNet would invent while loading, auxiliary states in real files.
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


class ModuleNames(msgspec.Struct, frozen=True):
    """What MXNet's ``Module`` wants to be told; ``state_names`` are RNN states that are neither data nor labels."""

    data_names: list[str]
    label_names: list[str]
    state_names: list[str]


def inspect(
    graph: Graph, *, held: frozenset[str] | None = None, as_input: tuple[str, ...] = (), as_parameter: tuple[str, ...] = ()
) -> Inspection:
    """What ``graph`` holds; ``held`` are the names in its parameter file, if there is one."""
    lists = NameLists(graph)
    roles = assign_roles(graph, held=held, as_input=as_input, as_parameter=as_parameter)
    ids = {node: i for i, node in enumerate(graph.nodes)}
    uses = consumers(graph.nodes)
    implied = [(found.name, implied_role(found)) for found in implied_variables(graph)]
    listed = [VariableRole(ids[n], n.name, role.kind.value, role.reason, len(uses.get(n, ()))) for n, role in roles.items()]
    listed += [VariableRole(None, name, role.kind.value, role.reason, 1) for name, role in implied]
    of = _with_roles(lists, roles, dict(implied))
    return Inspection(
        generation=generation(graph),
        mxnet_version=graph.version,
        nodes=len(graph.nodes),
        arguments=lists.arguments,
        auxiliary_states=lists.auxiliary_states,
        outputs=lists.outputs,
        inputs=[name for name, role in of if not role.is_parameter],
        parameters=[name for name, role in of if role.is_parameter],
        implied=[name for name, _ in implied],
        ops=dict(Counter(node.op for node in graph.nodes if node.op != VARIABLE).most_common()),
        roles=listed,
    )


def module_names(graph: Graph, *, held: frozenset[str] | None = None) -> ModuleNames:
    """The names that ``mx.mod.Module(symbol, data_names, label_names, state_names)`` needs for ``graph``."""
    roles = assign_roles(graph, held=held)
    implied = {found.name: implied_role(found) for found in implied_variables(graph)}
    inputs = [(name, role) for name, role in _with_roles(NameLists(graph), roles, implied) if not role.is_parameter]

    def names(wanted: tuple[bool, bool]) -> list[str]:
        return list(dict.fromkeys(name for name, role in inputs if _sort(role) == wanted))

    return ModuleNames(names((False, False)), names((True, False)), names((False, True)))


def _with_roles(lists: NameLists, roles: Mapping[Node, Role], implied: Mapping[str, Role]) -> list[tuple[str, Role]]:
    """The variables in MXNet's order, each with its role."""
    return [(v.name, roles[v.node] if v.node is not None else implied[v.name]) for v in lists.variables]


def _sort(role: Role) -> tuple[bool, bool]:
    return role.is_label, role.is_state
