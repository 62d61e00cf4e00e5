"""New names for nodes, as one act: swaps work, and every collision is found before anything changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from graphshare.analysis.name_lists import implied_name, implied_variables
from graphshare.analysis.roles import Role, assign_roles
from graphshare.errors import Fault, RefusedError
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import EMPTY, Branch, Graph, Node, NodeDetails, Rename, Rewrite
from graphshare.ir.rebuild import StoredNames, rebuild_graph, rename_node
from graphshare.rewrite.choices import check_collisions
from graphshare.rewrite.rules.model import SHARING, Only, Ruleset
from graphshare.rewrite.rules.plan import plan_names


def rename(
    graph: Graph,
    *,
    prefix: str = "",
    strip_prefix: str = "",
    names: Mapping[Node, str] | None = None,
    stored: Mapping[Node, StoredNames] = EMPTY,
    only: Collection[Only] = (),
    held: frozenset[str] | None = None,
    repeats: bool = False,
) -> Rewrite:
    """Rename nodes: remove ``strip_prefix``, then add ``prefix``; or give the nodes ``names``.

    ``stored`` are the other names of nodes, which go with ``names``. ``only`` limits it to kinds of nodes.
    Unnamed nodes stay unnamed. ``repeats`` lets different names become one again, as the inverse of a rename may have to.

    Raises:
        RefusedError: nothing would change, a node would lose its whole name, or names collide; all are listed.
    """
    chosen = _choose(graph, only, held)
    if names is not None:
        new = {node: name for node, name in names.items() if node in chosen}
    else:
        new = {node: prefix + node.name.removeprefix(strip_prefix) for node in chosen if node.name}
        stored = {node: _replace_prefix(node.details, strip_prefix, prefix) for node in new if node.details.outputs}
    new = {node: name for node, name in new.items() if name != node.name or _differs(node, stored.get(node))}
    _check_names(new, strip_prefix)
    rewrite = set_names(graph, new, stored=stored, repeats=repeats)
    check_isomorphic(rewrite)
    return rewrite


def _replace_prefix(details: NodeDetails, strip: str, prefix: str) -> StoredNames:
    outputs = tuple([prefix + text.removeprefix(strip) if text else "" for text in details.outputs])
    return StoredNames(outputs, prefix + details.label.removeprefix(strip) if details.label else "")


def _differs(node: Node, stored: StoredNames | None) -> bool:
    return stored is not None and (stored.outputs, stored.label) != (node.details.outputs, node.details.label)


def rename_by_rules(
    graph: Graph, ruleset: Ruleset, *, only: Collection[Only] = (), held: frozenset[str] | None = None
) -> Rewrite:
    """Rename nodes by rules; the notes are on the rules.

    Parameters that an alias or a scope override moves get their new names where these are free; two of one name are refused.

    Raises:
        RefusedError: as in :func:`rename`, or rules that do not fit the graph.
    """
    plan = plan_names(graph, ruleset, assign_roles(graph, held=held), _choose(graph, only, held))
    _check_names(plan.names, "")
    try:
        rewrite = set_names(graph, plan.names, stored=plan.stored)
    except RefusedError as error:
        if not any(rule.kind in SHARING for rule in ruleset.rules):
            raise
        hint = "a rename keeps nodes apart; `graphshare share` makes parameters of one name one"
        raise RefusedError([msgspec.structs.replace(fault, hint=hint) for fault in error.faults]) from None
    check_isomorphic(rewrite)
    return msgspec.structs.replace(rewrite, notes=plan.notes)


def _choose(graph: Graph, only: Collection[Only], held: frozenset[str] | None) -> dict[Node, None]:
    if not only:
        return dict.fromkeys(graph.nodes)
    roles = assign_roles(graph, held=held)
    return {node: None for node in graph.nodes if any(_is_kind(node, kind, roles) for kind in only)}


def _is_kind(node: Node, kind: Only, roles: Mapping[Node, Role]) -> bool:
    if kind == "ops":
        return not node.is_variable
    if not node.is_variable:
        return False
    return kind == "variables" or roles[node].is_parameter == (kind == "parameters")


def _check_names(new: Mapping[Node, str], strip_prefix: str) -> None:
    if not new:
        hint = f"no name begins with {strip_prefix!r}" if strip_prefix else "check `only`, the patterns and the map"
        raise RefusedError(Fault("no name would change", hint=hint))
    faults = [Fault("would be left without a name", node=node.name) for node, name in new.items() if not name]
    faults += [
        Fault(f"would get a name with a NUL character, {name!r}", node=n.name) for n, name in new.items() if "\0" in name
    ]
    if faults:
        raise RefusedError(faults)


def set_names(
    graph: Graph, names: Mapping[Node, str], *, stored: Mapping[Node, StoredNames] = EMPTY, repeats: bool = False
) -> Rewrite:
    """Give nodes new ``names``, with ``stored`` names where they are given; all others keep theirs.

    Names inside subgraphs stay: they are bound by position. States that an operator's name implies follow it. With
    ``repeats``, for the inverse of a rename, names may collide.

    Raises:
        RefusedError: a new name is one that stays, or two nodes with different names would get one; all are listed.
    """
    implied = [(found, names.get(found.node, found.node.name)) for found in implied_variables(graph)]
    implied_pairs = [(found.name, implied_name(node_name, found.formal)) for found, node_name in implied]
    renamed = [(node.name, names[node]) for node in graph.nodes if node in names and names[node] != node.name]
    renamed += [pair for pair in implied_pairs if pair[0] != pair[1]]
    kept = [node.name for node in graph.nodes if names.get(node, node.name) == node.name]
    kept += [old for old, new in implied_pairs if old == new]
    if not repeats:
        check_collisions(kept, renamed)

    def change(node: Node) -> Node:
        name = names.get(node, node.name)
        return node if name == node.name and node not in stored else rename_node(node, name, stored.get(node))

    # Ids stand still under a rename, so lists that did not follow from the nodes stay as they were too.
    result, images = rebuild_graph(graph, change)
    result = msgspec.structs.replace(result, source=graph.source.after_rename(images))
    return Rewrite(
        result, (Branch("", graph, images),), tuple(Rename("", old, new) for old, new in implied_pairs if old != new)
    )
