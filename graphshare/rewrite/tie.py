"""Tying and untying: several variables become one node, or one becomes a node for each consumer.

MXNet trains only a single node as one parameter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from graphshare.analysis.name_lists import (
    list_implied_variables,
    match_nodes,
    name_implied,
    output_name,
)
from graphshare.analysis.roles import Kind, Role, assign_roles, list_parameters
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, RefusedError
from graphshare.formats.model_format import find_format
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rename, Rewrite
from graphshare.ir.rebuild import rebuild, relink, relink_all, rename_node
from graphshare.ir.walk import consumers, topological
from graphshare.ops.registry import name_inputs
from graphshare.text.format import format_names
from graphshare.text.names import TakenNames, did_you_mean, split_key
from graphshare.text.summary import ShortRepr

_LEAST_ATTRIBUTES = 128  # bytes of an operator's attributes that may hold weights


class Tied(msgspec.Struct, frozen=True):
    """The parameter ``name`` became ``to`` by ``rule``."""

    name: str
    to: str
    rule: str


class Ties(ShortRepr, msgspec.Struct, frozen=True):
    """Tied, renamed, copied and unchanged parameters."""

    tied: list[Tied]
    renamed: list[Tied]
    copied: list[Tied]
    separate: list[str]


class Sharing(Rewrite, frozen=True, eq=False, gc=False, kw_only=True):
    """A rewrite of parameters, with the roles before it and the report.

    If parameters of two shapes are tied, ``reshaping`` follows: it adds operators, and a run must
    prove it.
    """

    roles: Mapping[Node, Role]
    ties: Ties
    reshaping: Rewrite | None = None


def assign_sharing_roles(
    graph: Graph,
    params: ParameterFile | None,
    as_input: Collection[str],
    as_parameter: Collection[str],
) -> dict[Node, Role]:
    """Return every variable's role; an input with a default is a parameter only if the user says
    so.
    """
    roles = assign_roles(
        graph, held=list_parameter_names(params), as_input=as_input, as_parameter=as_parameter
    )
    replaceable = Role(Kind.UNKNOWN, "callers can replace it: it is an input with a default")
    for node in find_format(graph).types.list_replaceable(graph):
        if roles[node].is_parameter and node.name not in as_parameter:
            roles[node] = replaceable
    return roles


def index_records(params: ParameterFile | None) -> dict[str, Record]:
    """Return the records of a parameter file by the names of their variables."""
    records = () if params is None else params.records
    return {split_key(record.key)[1]: record for record in records if record.key is not None}


def _is_plain(node: Node) -> bool:
    return node.is_variable and not node.inputs and not node.control_deps


def _check_plain(nodes: Iterable[Node], change: str) -> None:
    message = f"cannot be {change}: only variables without inputs can be"
    names = dict.fromkeys(node.name for node in nodes if not _is_plain(node))
    RefusedError.raise_any(Fault(message, node=name) for name in names)


def tie(graph: Graph, ties: Mapping[Node, Node], names: Mapping[Node, str]) -> Rewrite:
    """Replace each key of ``ties`` by its value, and give new ``names`` to nodes that stay.

    The values of ``ties`` are untied variables. A kept variable moves to the place of the first one
    tied to it, before every consumer. Versions of redirected entries are counted on: first the kept
    variable's, then each tied one's in file order.

    Raises:
        RefusedError: a key is not a variable.
    """
    _check_plain((node for pair in ties.items() for node in pair), "tied")
    mutations = _count_mutations(graph, ties) if ties else {}
    images: dict[Node, Node] = {}

    def change(node: Node) -> Node:
        if node in ties:
            return images[ties[node]]
        name = names.get(node, node.name)
        return node if name == node.name else rename_node(node, name)

    def redirect(entry: Entry, _: Node | None = None) -> Entry | None:
        count = mutations.get(entry.node)
        if not count or not entry.version:
            return None
        return Entry(images[entry.node], entry.index, entry.version + count)

    # Tied variables need the image of their kept variable and may come first in the file.
    order = tuple(dict.fromkeys((*ties.values(), *topological(graph))))
    rebuild(order, change, redirect=redirect if mutations else None, images=images)
    heads = tuple(redirect(entry) or relink(entry, images) for entry in graph.heads)
    nodes = tuple(dict.fromkeys(images[node] for node in graph.nodes))
    source = graph.source.after_rewrite(images) if ties else graph.source.after_rename(images)
    by_place = {node: images[node] for node in graph.nodes}
    result = msgspec.structs.replace(graph, nodes=nodes, heads=heads, source=source)
    renames = [
        Rename("", variable.name, name_implied(names[variable.node], variable.formal))
        for variable in list_implied_variables(graph)
        if variable.node in names
    ]
    return Rewrite(result, (Branch("", graph, by_place),), tuple(renames))


def find_last_versions(nodes: Iterable[Node]) -> dict[Node, int]:
    """Return how often ``nodes`` mutate each variable: the highest version of an entry to it."""
    last: dict[Node, int] = {}
    for node in nodes:
        for entry in node.inputs:
            if entry.version:
                last[entry.node] = max(last.get(entry.node, 0), entry.version)
    return last


def _count_mutations(graph: Graph, ties: Mapping[Node, Node]) -> dict[Node, int]:
    """Versions of tied variables rise by the mutations of the kept one before."""
    last = find_last_versions(graph.nodes)
    counted = {kept: last.get(kept, 0) for kept in ties.values()}
    raised: dict[Node, int] = {}
    for node in graph.nodes:
        if node in ties:
            raised[node] = counted[ties[node]]
            counted[ties[node]] += last.get(node, 0)
    return raised


def plan_untie(
    graph: Graph,
    patterns: Sequence[str],
    *,
    params: ParameterFile | None = None,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
) -> Sharing:
    """Copy matched parameters for each operator that uses them.

    Raises:
        RefusedError: a pattern matches no parameter that several operators use.
    """
    roles = assign_sharing_roles(graph, params, as_input, as_parameter)
    uses = consumers(graph.nodes)
    shared = dict.fromkeys(
        node for node in list_parameters(roles) if _has_several_users(node, uses)
    )
    chosen: dict[Node, str] = {}
    faults = []
    for pattern in patterns:
        matched = match_nodes(pattern, roles)
        hit = [node for node in matched if node in shared]
        if not hit:
            message = f"`untie` {pattern!r} matches no parameter that several operators use"
            hint = _suggest_pattern(pattern, matched, shared, roles)
            faults.append(Fault(message, hint=hint))
        chosen.update(dict.fromkeys(hit, f"--untie {pattern}"))
    RefusedError.raise_any(faults)
    rewrite = untie(graph, chosen)
    pairs = [pair for branch in rewrite.branches[1:] for pair in branch.images.items()]
    copies = {copy: rewrite.branches[0].images[node] for node, copy in pairs}
    check_isomorphic(Rewrite(rewrite.graph, rewrite.branches[:1]), copies=copies)
    copied = [Tied(node.name, copy.name, chosen[node]) for node, copy in pairs]
    separate = [node.name for node in list_parameters(roles) if node not in chosen]
    report = Ties([], [], copied, separate)
    return Sharing(rewrite.graph, rewrite.branches, roles=roles, ties=report)


def _has_several_users(node: Node, uses: Mapping[Node, Sequence[tuple[Node, int]]]) -> bool:
    if not node.name or not _is_plain(node):
        return False
    users = {user for user, _ in uses.get(node, ())}
    return len(users) > 1


def _suggest_pattern(
    pattern: str, matched: Collection[Node], shared: Collection[Node], roles: Mapping[Node, Role]
) -> str:
    unknown = [node for node in matched if roles[node].kind is Kind.UNKNOWN]
    if unknown:
        node = unknown[-1]
        return f"`as_parameter={node.name!r}` says that it is a parameter: {roles[node].reason}"
    if not shared:
        return "no parameter of this graph has more than one user"
    return did_you_mean(pattern, [node.name for node in shared])


def untie(graph: Graph, variables: Collection[Node]) -> Rewrite:
    """Copy each of ``variables`` for every operator but the first, in file order, that uses it.

    A copy follows the original. It gets MXNet's name for that operator's own input
    (``fc2_weight``), or if that is taken, the variable's with a number. Each further copy is a
    branch of the rewrite, so that the original's record in a parameter file is written for it, too.

    Raises:
        RefusedError: one of them is not a variable without inputs.
    """
    _check_plain(variables, "untied")
    users: dict[Node, dict[Node, int]] = {node: {} for node in variables}
    for node in graph.nodes:
        for slot, entry in enumerate(node.inputs):
            if entry.node in users:
                users[entry.node].setdefault(node, slot)
    taken = TakenNames(node.name for node in graph.nodes)
    for state in list_implied_variables(graph):
        taken.add(state.name)
    copies: dict[Node, dict[Node, Node]] = {}
    for variable, slots in users.items():
        # The first user keeps the variable itself.
        rest = list(slots.items())[1:]
        copies[variable] = {user: _copy_for(variable, user, slot, taken) for user, slot in rest}

    images = rebuild(
        topological(graph),
        redirect=lambda entry, user: _enter_copy(entry, copies.get(entry.node, {}).get(user)),
    )
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.append(images[node])
        nodes.extend(copies.get(node, {}).values())
    heads, source = relink_all(graph.heads, images), graph.source.after_rewrite(images)
    result = msgspec.structs.replace(graph, nodes=tuple(nodes), heads=heads, source=source)
    branches = [Branch("", graph, {node: images[node] for node in graph.nodes})]
    for number in range(max(map(len, copies.values()), default=0)):
        held = {
            variable: list(slots.values())[number]
            for variable, slots in copies.items()
            if len(slots) > number
        }
        branches.append(Branch(f"copy {number + 1}", graph, held))
    return Rewrite(result, tuple(branches))


def _copy_for(variable: Node, user: Node, slot: int, taken: TakenNames) -> Node:
    formals = name_inputs(user) or ()
    name = variable.name
    if user.name and slot < len(formals):
        implied = name_implied(user.name, formals[slot])
        if taken.find_free(implied) == implied:
            name = implied
    return rename_node(variable, taken.take(name))


def _enter_copy(entry: Entry, copy: Node | None) -> Entry | None:
    """Return the entry to the user's own ``copy``; only this user mutates it."""
    return None if copy is None else Entry(copy, entry.index, 1 if entry.version else entry.version)


def note_copied_attributes(graph: Graph) -> list[str]:
    """Return notes on equal weights in attributes of several operators (ai.onnx.ml), each its own
    copy.
    """
    description = find_format(graph).description
    alike: dict[object, list[Node]] = {}
    for node in graph.nodes:
        sizes = description.measure_attributes(node)
        if node.op and sum(sizes.values()) >= _LEAST_ATTRIBUTES:
            values = frozenset((name, node.details.values[name]) for name in sizes)
            alike.setdefault((node.details.domain, node.op, values), []).append(node)
    notes = []
    for nodes in alike.values():
        if len(nodes) > 1:
            names = format_names(output_name(Entry(node)) for node in nodes)
            what = f"{nodes[0].op} of {names} are equal"
            notes.append(f"weights in attributes are copied, not shared: {what}")
    return notes
