"""Untying: a variable that several operators use becomes one variable for each of them, under names of their own."""

from __future__ import annotations

from collections.abc import Collection

from graphshare.analysis.implied import implied_name, implied_variables
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite
from graphshare.ir.rebuild import rebuild, relink_all, rename_node
from graphshare.ir.walk import topological
from graphshare.ops.registry import lookup


def untie(graph: Graph, variables: Collection[Node]) -> Rewrite:
    """``graph`` with a copy of each of ``variables`` for every operator but the first, in file order, that uses it.

    A copy is called as MXNet would call that operator's own input (``fc2_weight``), or where that name is taken, as the
    variable with a number behind it. It stands right behind the original. The rewrite has one more branch for each further
    copy, holding the copies alone: what a parameter file has for the original is written for them too.

    Raises:
        RefusedError: something other than a variable without inputs is to be untied; all are listed.
    """
    faults = [
        Fault("cannot be untied: only variables without inputs can", node=node.name)
        for node in variables
        if not node.is_variable or node.inputs or node.control_deps
    ]
    if faults:
        raise RefusedError(faults)
    users: dict[Node, dict[Node, int]] = {node: {} for node in variables}
    for node in graph.nodes:
        for slot, entry in enumerate(node.inputs):
            if entry.node in users:
                users[entry.node].setdefault(node, slot)
    taken = {node.name for node in graph.nodes} | {found.name for found in implied_variables(graph)}
    copies: dict[Node, dict[Node, Node]] = {}
    for variable, found in users.items():
        rest = list(found.items())[1:]
        copies[variable] = {user: _copy(variable, user, slot, taken) for user, slot in rest}

    images = rebuild(topological(graph), redirect=lambda entry, user: _entry(entry, copies.get(entry.node, {}).get(user)))
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.append(images[node])
        nodes.extend(copies.get(node, {}).values())
    result = Graph(tuple(nodes), relink_all(graph.heads, images), graph.attrs, graph.source.after_rewrite(), graph.extra)
    branches = [Branch("", graph, {node: images[node] for node in graph.nodes})]
    for number in range(max((len(found) for found in copies.values()), default=0)):
        held = {variable: list(found.values())[number] for variable, found in copies.items() if len(found) > number}
        branches.append(Branch(f"copy {number + 1}", graph, held))
    return Rewrite(result, tuple(branches))


def _copy(variable: Node, user: Node, slot: int, taken: set[str]) -> Node:
    signature = lookup(user.op)
    formals = signature.input_names(user.attrs, len(user.inputs), subgraphs=user.subgraphs) if signature else None
    name = implied_name(user.name, formals[slot]) if formals and user.name and slot < len(formals) else ""
    number = 0
    while not name or name in taken:
        number += 1
        name = f"{variable.name}_{number}"
    taken.add(name)
    return rename_node(variable, name)


def _entry(entry: Entry, copy: Node | None) -> Entry | None:
    """Return the entry to the user's own ``copy``, which only this user mutates."""
    return None if copy is None else Entry(copy, entry.index, min(entry.version, 1) if entry.version else entry.version)
