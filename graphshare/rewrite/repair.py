"""Sharing undone and doubtful sharing settled: copies for every user of a parameter, and variables that merely share a name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from graphshare.analysis.roles import Role, assign_roles
from graphshare.checkpoint.parameter_plan import list_parameter_names
from graphshare.checkpoint.self_check import check_isomorphic
from graphshare.errors import Fault, RefusedError
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node, Rewrite
from graphshare.ir.walk import consumers
from graphshare.rewrite.rules.plan import Plan
from graphshare.rewrite.share import Sharing, Tied, Ties, share_by_plan
from graphshare.rewrite.tie import tie
from graphshare.rewrite.untie import untie
from graphshare.text.names import did_you_mean
from graphshare.text.patterns import compile_pattern

Repair = Literal["tie", "separate"]


def plan_untie(
    graph: Graph,
    patterns: Sequence[str],
    *,
    params: ParameterFile | None = None,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
) -> Sharing:
    """``graph`` with a copy of every parameter that ``patterns`` match for each operator that uses it.

    Raises:
        RefusedError: a pattern matches no parameter that several operators use.
    """
    roles = assign_roles(graph, held=list_parameter_names(params), as_input=as_input, as_parameter=as_parameter)
    uses = consumers(graph.nodes)
    plain = [n for n, role in roles.items() if role.is_parameter and n.name and not n.inputs and not n.control_deps]
    shared = [node for node in plain if len({user for user, _ in uses.get(node, ())}) > 1]
    chosen: dict[Node, str] = {}
    faults = []
    for pattern in patterns:
        matches = compile_pattern(pattern)
        hit = [node for node in shared if matches(node.name)]
        if not hit:
            known = [node.name for node in shared]
            hint = did_you_mean(pattern, known) or ("" if known else "no parameter of this graph has more than one user")
            faults.append(Fault(f"--untie {pattern!r} matches no parameter that several operators use", hint=hint))
        chosen.update((node, f"--untie {pattern}") for node in hit)
    if faults:
        raise RefusedError(faults)
    rewrite = untie(graph, chosen)
    copies = {copy: rewrite.branches[0].images[node] for b in rewrite.branches[1:] for node, copy in b.images.items()}
    check_isomorphic(Rewrite(rewrite.graph, rewrite.branches[:1]), copies=copies)
    copied = [Tied(n.name, copy.name, chosen[n]) for b in rewrite.branches[1:] for n, copy in b.images.items()]
    report = Ties([], [], copied, [n.name for n, role in roles.items() if role.is_parameter and n not in chosen])
    return Sharing(rewrite, roles, report, ())


def repeated_names(graph: Graph) -> dict[str, list[Node]]:
    """The names of more than one variable; MXNet's Module refuses such a graph. Unnamed ones are not doubtful."""
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
    """``graph`` with one variable to a name: those of one name become one node (``tie``), or get a number (``separate``).

    A record in ``params`` is written for each of those that are separate.

    Raises:
        RefusedError: no two variables have one name, or those that do cannot be one.
    """
    roles = assign_roles(graph, held=list_parameter_names(params), as_input=as_input, as_parameter=as_parameter)
    repeated = repeated_names(graph)
    if not repeated:
        raise RefusedError(Fault("no two variables have one name, so there is nothing to repair"))
    if how == "tie":
        ties = {node: nodes[0] for nodes in repeated.values() for node in nodes[1:]}
        made = share_by_plan(graph, Plan({}, ties, {}), roles, params)
        report = [Tied(node.name, node.name, "--doctor tie") for node in ties]
        return Sharing(made.rewrite, roles, Ties(report, [], [], made.ties.separate), made.notes)
    names = _numbered(graph, repeated)
    rewrite = tie(graph, {}, names)
    check_isomorphic(rewrite)
    return Sharing(rewrite, roles, _separated(names, roles), ())


def _numbered(graph: Graph, repeated: Mapping[str, Sequence[Node]]) -> dict[Node, str]:
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


def _separated(names: Mapping[Node, str], roles: Mapping[Node, Role]) -> Ties:
    copied = [Tied(node.name, new, "--doctor separate") for node, new in names.items()]
    old = {node.name for node in names}
    return Ties([], [], copied, [n.name for n, role in roles.items() if role.is_parameter and n.name not in old])
