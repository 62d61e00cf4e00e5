"""``rename``: a prefix added or taken away, names from a map, or names by rule."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from graphshare.analysis.roles import Role, assign_roles
from graphshare.checkpoint.self_check import check_isomorphic
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Graph, Node, Rewrite
from graphshare.rewrite.rename import rename as give_names
from graphshare.rewrite.rules.model import SHARING, Only, Ruleset
from graphshare.rewrite.rules.plan import plan_names


def rename(
    graph: Graph,
    *,
    prefix: str = "",
    strip_prefix: str = "",
    names: Mapping[Node, str] | None = None,
    only: Collection[Only] = (),
    held: frozenset[str] | None = None,
    repeats: bool = False,
) -> Rewrite:
    """``graph`` with other names: first ``strip_prefix`` is taken away, then ``prefix`` put before; or ``names`` as they are.

    ``only`` limits it to kinds of nodes. Unnamed nodes stay unnamed. ``repeats`` lets different names become one again, as the
    inverse of a rename may have to.

    Raises:
        RefusedError: nothing would change, a node would lose its whole name, or names collide; all are listed.
    """
    chosen = _chosen(graph, only, held)
    if names is not None:
        new = {node: name for node, name in names.items() if node in chosen}
    else:
        new = {node: prefix + node.name.removeprefix(strip_prefix) for node in chosen if node.name}
    new = {node: name for node, name in new.items() if name != node.name}
    _check(new, strip_prefix)
    rewrite = give_names(graph, new, repeats=repeats)
    check_isomorphic(rewrite)
    return rewrite


def rename_by_rules(
    graph: Graph, ruleset: Ruleset, *, only: Collection[Only] = (), held: frozenset[str] | None = None
) -> tuple[Rewrite, tuple[str, ...]]:
    """``graph`` with the names that rules give, and what a person should know of the rules.

    Parameters that an alias or a scope override moves get their new names where these are free; two of one name are refused.

    Raises:
        RefusedError: as in :func:`rename`, or rules that do not fit the graph.
    """
    plan = plan_names(graph, ruleset, assign_roles(graph, held=held), _chosen(graph, only, held))
    _check(plan.names, "")
    try:
        rewrite = give_names(graph, plan.names)
    except RefusedError as error:
        if not any(rule.kind in SHARING for rule in ruleset.rules):
            raise
        hint = "a rename keeps nodes apart; `graphshare share` makes parameters of one name one"
        raise RefusedError([msgspec.structs.replace(fault, hint=hint) for fault in error.faults]) from None
    check_isomorphic(rewrite)
    return rewrite, plan.notes


def _chosen(graph: Graph, only: Collection[Only], held: frozenset[str] | None) -> dict[Node, None]:
    if not only:
        return dict.fromkeys(graph.nodes)
    roles = assign_roles(graph, held=held)
    return {node: None for node in graph.nodes if any(_is(node, kind, roles) for kind in only)}


def _is(node: Node, kind: Only, roles: Mapping[Node, Role]) -> bool:
    if kind is Only.OPS:
        return not node.is_variable
    if not node.is_variable:
        return False
    return kind is Only.VARIABLES or roles[node].is_parameter == (kind is Only.PARAMETERS)


def _check(new: Mapping[Node, str], strip_prefix: str) -> None:
    if not new:
        hint = f"no name begins with {strip_prefix!r}" if strip_prefix else "check --only, the patterns and the map"
        raise RefusedError(Fault("no name would change", hint=hint))
    faults = [Fault("would be left without a name", node=node.name) for node, name in new.items() if not name]
    faults += [
        Fault(f"would get a name with a NUL character, {name!r}", node=n.name) for n, name in new.items() if "\0" in name
    ]
    if faults:
        raise RefusedError(faults)
