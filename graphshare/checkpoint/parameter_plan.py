"""The effect of a rewrite on a parameter file: which record is written under which names, by the images of nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from graphshare.analysis.implied import implied_variables
from graphshare.analysis.roles import Kind, Role, assign_roles, disagreements, implied_role
from graphshare.errors import Fault, RefusedError
from graphshare.formats.model_format import find_format
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.graph import Branch, Graph, Node, Rewrite
from graphshare.ops.registry import canonical, signature_of
from graphshare.text.format import format_names
from graphshare.text.names import RECORD_PREFIXES, join_key, split_key

Plan = list[tuple[Record, str | None]]


def list_parameter_names(params: ParameterFile | None) -> frozenset[str] | None:
    """Return the names of a file's records without ``arg:`` and ``aux:``; None without a file.

    Raises:
        RefusedError: the records have no names.
    """
    if params is None:
        return None
    if params.records and not params.named:
        hint = "it is a list without names; save it with names (mx.nd.save of a dict) to use it with a graph"
        raise RefusedError(Fault("has no names, so its records belong to no variable", where=params.path, hint=hint))
    return frozenset(split_key(record.key)[1] for record in params.records if record.key is not None)


def plan_records(params: ParameterFile, rewrite: Rewrite, *, drop_unused: bool = False) -> Plan:
    """Return which record goes where: file order for the first branch, then for each further branch what it has of its own.

    A record that belongs to no variable stays as it is; ``drop_unused`` leaves it out, and records of dropped variables too.

    Raises:
        RefusedError: two records would get one name; all such names are listed.
    """
    held = frozenset(split_key(record.key or "")[1] for record in params.records)
    branches = [_Names(branch, rewrite, held) for branch in rewrite.branches]
    plan: Plan = []
    taken: dict[str, str] = {}
    faults: dict[str, Fault] = {}
    for number, names in enumerate(branches):
        for record in params.records:
            kind, name = split_key(record.key or "")
            claimed = any(name in other.new for other in branches)
            new = names.new.get(name, ()) if claimed else (name,) if number == 0 and not drop_unused else ()
            for key in (join_key(kind, n) for n in new):
                owner = taken.setdefault(key, record.key or "")
                if owner != record.key:
                    faults.setdefault(
                        key, Fault(f"records {owner!r} and {record.key!r} would both become {key!r}", where=params.path)
                    )
                elif not _is_planned(plan, record, key, number):
                    plan.append((record, key))
    if faults:
        raise RefusedError(faults.values())
    return plan


def _is_planned(plan: Plan, record: Record, key: str, number: int) -> bool:
    """Return whether an earlier branch wrote the record under this name already: a tied parameter is written once."""
    return number > 0 and key == record.key


def check_belongs(params: ParameterFile | None, graph: Graph) -> None:
    """Refuse a parameter file that has nothing in common with ``graph``.

    Raises:
        RefusedError: the file has records, and none has the name of a variable.
    """
    held = list_parameter_names(params)
    if params is None or not held or find_format(graph).holds_parameters:
        return
    known = {node.name for node in graph.variables()} | {found.name for found in implied_variables(graph)}
    if held.isdisjoint(known):
        hint = f"it holds {format_names(sorted(held), 4)}; the graph's variables are {format_names(sorted(known), 4)}"
        raise RefusedError(Fault("holds no parameter of this graph", where=params.path, hint=hint))


def notes_on(
    params: ParameterFile | None, graph: Graph, roles: Mapping[Node, Role] | None = None, *, unused: bool = True
) -> list[str]:
    """Return sentences on where a parameter file and ``graph`` do not fit; ``roles`` are given if they are known already.

    Without ``unused``, records that belong to no variable are not mentioned.
    """
    if find_format(graph).holds_parameters:
        return list(graph.source.remarks())
    held = list_parameter_names(params)
    if params is None or held is None:
        return []
    roles = assign_roles(graph, held=held) if roles is None else roles
    implied = {found.name: implied_role(found) for found in implied_variables(graph)}
    missing, taken = disagreements(roles, held)
    missing += [name for name, role in implied.items() if role.is_parameter and name not in held]
    known = {node.name for node in roles} | implied.keys()
    surplus = [r.key or "" for r in params.records if split_key(r.key or "")[1] not in known]
    return [
        f"{params.path}: {text}: {format_names(names)}"
        for text, names in (
            ("does not hold what the graph makes a parameter", missing),
            ("holds what the graph makes an input; it is taken for a parameter", taken),
            ("holds under arg: or aux: what the graph makes the other", _wrong_prefixes(params, graph, roles, implied)),
            ("holds what no variable of the graph is called", surplus if unused else []),
        )
        if names
    ]


def _wrong_prefixes(params: ParameterFile, graph: Graph, roles: Mapping[Node, Role], implied: Mapping[str, Role]) -> list[str]:
    """Return the keys whose ``arg:`` or ``aux:`` does not fit the graph; MXNet's Module would not find them."""
    kinds: dict[str, set[str]] = {}
    for name, role in [*((node.name, role) for node, role in roles.items()), *implied.items()]:
        kinds.setdefault(name, set()).add("aux" if role.kind is Kind.AUXILIARY else "arg")
    for node in graph.nodes:
        signature = signature_of(node)
        if not node.is_variable and (signature is None or not signature.inputs_known):  # it may mutate any input
            for entry in node.inputs:
                kinds.setdefault(entry.node.name, set()).update(RECORD_PREFIXES)
    split = ((record.key or "", *split_key(record.key or "")) for record in params.records)
    return [key for key, kind, name in split if kind and kind not in kinds.get(name, (kind,))]


def _owners(branch: Branch, held: Collection[str]) -> dict[Node, str]:
    """Return for each variable of the result the name whose record it keeps.

    Of several that were tied, that is one that the file holds, and of those the one whose name stays.
    """
    owners: dict[Node, str] = {}
    for node in branch.source.variables():
        image = branch.images.get(node)
        if image is None:
            continue
        owner = owners.setdefault(image, node.name)
        if owner != node.name:
            owners[image] = min(owner, node.name, key=lambda name: (name not in held, name != image.name))
    return owners


class _Names:
    """The new names of each old name in one branch, implied variables included."""

    def __init__(self, branch: Branch, rewrite: Rewrite, held: Collection[str]) -> None:
        new: dict[str, dict[str, None]] = {}
        owners = _owners(branch, held)
        for node in branch.source.variables():
            image = branch.images.get(node)
            names = new.setdefault(node.name, {})
            if image is not None and owners[image] == node.name:
                names[image.name] = None
        renamed = {rename.old: rename.new for rename in rewrite.renames if rename.branch == branch.label}
        for implied in implied_variables(branch.source):
            names = new.setdefault(implied.name, {})
            image = branch.images.get(implied.node)
            if image is not None and canonical(image.op) == canonical(implied.node.op):  # what became another has no such input
                names[renamed.get(implied.name, implied.name)] = None
        self.new = {name: tuple(names) for name, names in new.items()}
