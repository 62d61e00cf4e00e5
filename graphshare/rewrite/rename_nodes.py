"""New names for nodes at once: swaps work, and collisions are found before any change."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from graphshare.analysis.name_lists import list_implied_variables, name_implied
from graphshare.analysis.roles import assign_roles
from graphshare.errors import Fault, RefusedError
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import EMPTY, Branch, Graph, Node, Rename, Rewrite
from graphshare.ir.rebuild import StoredNames, rebuild_graph, rename_node
from graphshare.rewrite.choices import check_collisions
from graphshare.rewrite.rules.model import SHARING, Boundary, Only, Ruleset
from graphshare.rewrite.rules.plan import find_kinds, plan_names


def plan_rename(
    graph: Graph,
    *,
    prefix: str = "",
    strip_prefix: str = "",
    only: Collection[Only] = (),
    keep: Collection[Boundary] = (),
    held: frozenset[str] | None = None,
) -> Rewrite:
    """Rename nodes: remove ``strip_prefix``, then add ``prefix``. Unnamed nodes stay unnamed.

    ``only`` limits the rename to kinds of nodes, ``keep`` protects the names of inputs or outputs.

    Raises RefusedError as :func:`graphshare.rename`.
    """
    kept = _list_kept(graph, keep, held)

    def replace_prefix(name: str) -> str:
        if not name or name in kept:
            return name
        return prefix + name.removeprefix(strip_prefix)

    new = {node: replace_prefix(node.name) for node in _choose(graph, only, held) if node.name}
    stored = {}
    # A prefix alone also goes before other names of a node
    if strip_prefix or kept:
        for node in new:
            outputs = tuple(map(replace_prefix, node.details.outputs))
            if outputs:
                stored[node] = StoredNames(outputs, replace_prefix(node.details.label))
    return _set_new_names(graph, new, stored, strip_prefix=strip_prefix)


def rename_by_names(
    graph: Graph,
    names: Mapping[Node, str],
    *,
    stored: Mapping[Node, StoredNames] = EMPTY,
    only: Collection[Only] = (),
    held: frozenset[str] | None = None,
    repeats: bool = False,
) -> Rewrite:
    """Rename nodes to ``names``, with ``stored`` as their other names; ``only`` limits it to kinds.

    ``repeats`` lets different names become one again, as the inverse of a rename may have to.
    Raises RefusedError as :func:`plan_rename`.
    """
    chosen = _choose(graph, only, held)
    new = {node: name for node, name in names.items() if node in chosen}
    return _set_new_names(graph, new, stored, repeats=repeats)


def _set_new_names(
    graph: Graph,
    names: Mapping[Node, str],
    stored: Mapping[Node, StoredNames],
    *,
    strip_prefix: str = "",
    repeats: bool = False,
) -> Rewrite:
    new = {
        node: name
        for node, name in names.items()
        if name != node.name or _differs(node, stored.get(node))
    }
    _check_names(new, strip_prefix)
    rewrite = set_names(graph, new, stored=stored, repeats=repeats)
    check_isomorphic(rewrite)
    return rewrite


def _list_kept(
    graph: Graph, keep: Collection[Boundary], held: frozenset[str] | None
) -> frozenset[str]:
    kept: set[str] = set()
    if "inputs" in keep:
        roles = assign_roles(graph, held=held)
        kept.update(node.name for node, role in roles.items() if not role.is_parameter)
    if "outputs" in keep:
        for head in graph.heads:
            outputs = head.node.details.outputs
            kept.add(outputs[head.index] if outputs else head.node.name)
    return frozenset(kept)


def _differs(node: Node, stored: StoredNames | None) -> bool:
    if stored is None:
        return False
    return (stored.outputs, stored.label) != (node.details.outputs, node.details.label)


def rename_by_rules(
    graph: Graph,
    ruleset: Ruleset,
    *,
    only: Collection[Only] = (),
    keep: Collection[Boundary] = (),
    held: frozenset[str] | None = None,
) -> Rewrite:
    """Rename nodes by rules, except inputs or outputs in ``keep``; the notes are on the rules.

    Parameters that an alias or a scope override moves get their new names if free.

    Raises RefusedError as :func:`plan_rename`, or if rules do not fit the graph.
    """
    kept = _list_kept(graph, keep, held)
    roles = assign_roles(graph, held=held)
    plan = plan_names(graph, ruleset, roles, _choose(graph, only, held), kept)
    _check_names(plan.names, "")
    try:
        rewrite = set_names(graph, plan.names, stored=plan.stored)
    except RefusedError as error:
        if not any(rule.kind in SHARING for rule in ruleset.rules):
            raise
        hint = "a rename keeps nodes apart; `gs.share` makes parameters of one name one"
        raise RefusedError(
            [msgspec.structs.replace(fault, hint=hint) for fault in error.faults]
        ) from None
    check_isomorphic(rewrite)
    return msgspec.structs.replace(rewrite, notes=plan.notes)


def _choose(graph: Graph, only: Collection[Only], held: frozenset[str] | None) -> dict[Node, None]:
    if not only:
        return dict.fromkeys(graph.nodes)
    roles = assign_roles(graph, held=held)
    return {node: None for node in graph.nodes if not find_kinds(node, roles).isdisjoint(only)}


def _check_names(new: Mapping[Node, str], strip_prefix: str) -> None:
    if not new:
        hint = "check `only`, the patterns and the map"
        if strip_prefix:
            hint = f"no name begins with {strip_prefix!r}"
        raise RefusedError(Fault("no name would change", hint=hint))
    faults = [
        Fault("would be left without a name", node=node.name)
        for node, name in new.items()
        if not name
    ]
    faults += [
        Fault(f"would get a name with a NUL character, {name!r}", node=node.name)
        for node, name in new.items()
        if "\0" in name
    ]
    RefusedError.raise_any(faults)


def set_names(
    graph: Graph,
    names: Mapping[Node, str],
    *,
    stored: Mapping[Node, StoredNames] = EMPTY,
    repeats: bool = False,
) -> Rewrite:
    """Give nodes new ``names`` and ``stored`` names.

    Names inside subgraphs stay: they are bound by position. States that an operator's name implies
    follow it.

    Raises:
        RefusedError: a new name is one that stays, or two nodes with different names would get it,
            unless ``repeats`` is set for the inverse of a rename.
    """
    implied_pairs: list[tuple[str, str]] = []
    for state in list_implied_variables(graph):
        owner = names.get(state.node, state.node.name)
        implied_pairs.append((state.name, name_implied(owner, state.formal)))
    pairs = [(node.name, names.get(node, node.name)) for node in graph.nodes] + implied_pairs
    # Without a repeated name nothing collides
    if not repeats and len({new for _, new in pairs}) < len(pairs):
        check_collisions(
            [old for old, new in pairs if old == new],
            [(old, new) for old, new in pairs if old != new],
        )

    def change(node: Node) -> Node:
        name = names.get(node, node.name)
        if name == node.name and node not in stored:
            return node
        return rename_node(node, name, stored.get(node))

    # A rename keeps ids: lists that did not follow from the nodes stay unchanged, too.
    result, images = rebuild_graph(graph, change)
    result = msgspec.structs.replace(result, source=graph.source.after_rename(images))
    renames = tuple(Rename("", old, new) for old, new in implied_pairs if old != new)
    return Rewrite(result, (Branch("", graph, images),), renames)
