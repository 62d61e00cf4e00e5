"""``share --doctor``: variables that merely share a name become one node, or get names of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from graphshare.analysis.roles import Role, assign_roles
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, RefusedError
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import Graph, Node
from graphshare.rewrite.rules.plan import Plan
from graphshare.rewrite.share import Sharing, Tied, Ties, share_by_plan
from graphshare.rewrite.tie import tie

Repair = Literal["tie", "separate"]


def find_repeated_names(graph: Graph) -> dict[str, list[Node]]:
    """Return the names of more than one variable; MXNet's Module refuses such a graph. Unnamed variables do not count."""
    found: dict[str, list[Node]] = {}
    for node in graph.variables():
        if node.name:
            found.setdefault(node.name, []).append(node)
    return {name: nodes for name, nodes in found.items() if len(nodes) > 1}


def plan_doctor(
    graph: Graph,
    how: Repair,
    *,
    params: ParameterFile | None = None,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
) -> Sharing:
    """Leave one variable to a name: those of one name become one node (``tie``), or get a number (``separate``).

    A record in ``params`` is written for each of those that are separate.

    Raises:
        RefusedError: no two variables have one name, or those that do cannot be one.
    """
    roles = assign_roles(graph, held=list_parameter_names(params), as_input=as_input, as_parameter=as_parameter)
    repeated = find_repeated_names(graph)
    if not repeated:
        raise RefusedError(Fault("no two variables have one name, so there is nothing to repair"))
    if how == "tie":
        ties = {node: nodes[0] for nodes in repeated.values() for node in nodes[1:]}
        made = share_by_plan(graph, Plan({}, ties, {}), roles, params)
        report = [Tied(node.name, node.name, "--doctor tie") for node in ties]
        return replace(made, ties=Ties(report, [], [], made.ties.separate))
    names = _number_names(graph, repeated)
    rewrite = tie(graph, {}, names)
    check_isomorphic(rewrite)
    return Sharing(rewrite.graph, rewrite.branches, rewrite.renames, roles=roles, ties=_report_separate(names, roles))


def _number_names(graph: Graph, repeated: Mapping[str, Sequence[Node]]) -> dict[Node, str]:
    taken = {node.name for node in graph.nodes}
    names: dict[Node, str] = {}
    for name, nodes in repeated.items():
        number = 0
        for node in nodes[1:]:
            number += 1
            while f"{name}_{number}" in taken:
                number += 1
            names[node] = f"{name}_{number}"
            taken.add(names[node])
    return names


def _report_separate(names: Mapping[Node, str], roles: Mapping[Node, Role]) -> Ties:
    copied = [Tied(node.name, new, "--doctor separate") for node, new in names.items()]
    old = {node.name for node in names}
    return Ties([], [], copied, [n.name for n, role in roles.items() if role.is_parameter and n.name not in old])
