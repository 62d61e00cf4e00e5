"""``rename``: new names for nodes at once: swaps work, and collisions are found before any change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from graphshare.analysis.name_lists import list_implied_variables, name_implied
from graphshare.analysis.roles import assign_roles
from graphshare.arguments import Text
from graphshare.checkpoint.load import Model, Names, StrPath, as_checkpoint, as_names
from graphshare.checkpoint.map_file import (
    MapEntry,
    MapFile,
    Place,
    names_from_map,
    read_map,
    read_stored_names,
    restore_escapes,
)
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import Fault, RefusedError, UsageError, locate_refusals
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import EMPTY, Branch, Graph, Node, Rename, Rewrite
from graphshare.ir.rebuild import StoredNames, rebuild_graph, rename_node
from graphshare.rewrite.choices import check_collisions
from graphshare.rewrite.rules.load import make_ruleset
from graphshare.rewrite.rules.model import SHARING, Boundary, Kind, Only, Rule, Ruleset
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

    Raises:
        RefusedError: nothing would change, a node would lose its whole name, or names collide; all
            are listed.
    """
    kept = _list_kept(graph, keep, held)

    def replace_prefix(name: str) -> str:
        if not name or name in kept:
            return name
        return prefix + name.removeprefix(strip_prefix)

    new = {node: replace_prefix(node.name) for node in _choose(graph, only, held) if node.name}
    stored = {}
    # A prefix alone is added to the other names of a node without being told
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
    """Rename nodes to ``names``, with ``stored`` as their other names; ``only`` limits it to kinds
    of nodes.

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

    Parameters that an alias or a scope override moves get their new names where these are free.

    Raises RefusedError as :func:`rename`, or if rules do not fit the graph.
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
    """Give nodes new ``names`` and ``stored`` names; all others keep theirs.

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

    # A rename keeps ids, so lists that did not follow from the nodes stay unchanged too.
    result, images = rebuild_graph(graph, change)
    result = msgspec.structs.replace(result, source=graph.source.after_rename(images))
    renames = tuple(Rename("", old, new) for old, new in implied_pairs if old != new)
    return Rewrite(result, (Branch("", graph, images),), renames)


def rename(
    model: Model,
    rules: Ruleset | StrPath | None = None,
    *,
    prefix: str = "",
    strip_prefix: str = "",
    names: Mapping[str, str] | Mapping[Node, str] | None = None,
    map: StrPath | None = None,
    inverse: bool = False,
    match: Mapping[str, str] = EMPTY,
    variable_scopes: Names = (),
    name_scopes: Names = (),
    separator: Text | None = None,
    only: Only | Iterable[Only] = (),
    keep: Boundary | Iterable[Boundary] = (),
) -> Checkpoint:
    """Rename nodes and their parameters.

    Either ``strip_prefix`` is removed and ``prefix`` put before; or ``names`` (old to new; or a
    node to its new name) or the file ``map`` give the names, ``inverse`` the other way round; or
    ``rules`` do (a file, or the result of :func:`load_rules`), followed by ``match`` (pattern to
    name, each ``*`` in the name is replaced by the text that the pattern's next ``*`` matched) and
    scopes around all names (``variable_scopes``) or all but parameters' (``name_scopes``), whose
    parts ``separator`` separates (``/``). ``only`` limits it to ``variables``, ``ops``, ``inputs``
    or ``parameters``; ``keep`` preserves the names of ``inputs`` or ``outputs``, or both, for
    callers that know them. Names inside subgraphs stay: they bind by position.

    Raises:
        UsageError: no rule or option for renaming, or two ways exclude each other.
        InputError: the map or rules file cannot be read, or names nodes that the graph does not
            have.
        RefusedError: no name would change, a node would lose its whole name, or names collide; all
            are listed.
    """
    affixes = {
        "strip_prefix": as_names(strip_prefix or ()),
        "prefix": as_names(prefix or ()),
        "name_scopes": as_names(name_scopes),
        "variable_scopes": as_names(variable_scopes),
    }
    by_rule = rules is not None or bool(
        match or affixes["name_scopes"] or affixes["variable_scopes"]
    )
    by_map = names is not None or map is not None
    _check_ways(by_map, inverse, bool(prefix or strip_prefix), by_rule)
    source = as_checkpoint(model)
    kinds: list[Only] = [only] if isinstance(only, str) else list(only)
    ends: list[Boundary] = [keep] if isinstance(keep, str) else list(keep)
    if ends and by_map:
        raise UsageError(
            Fault("a map excludes `keep`", hint="leave the inputs and outputs out of the map")
        )
    new = _read_new_names(source.graph, names, map, inverse)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        if new is not None:
            rewrite = _rename_by_map(source, new, kinds, inverse)
        elif by_rule:
            ruleset = make_ruleset(rules, _list_option_rules(match, affixes), separator=separator)
            rewrite = rename_by_rules(
                source.graph, ruleset, only=kinds, keep=ends, held=source.held
            )
        else:
            rewrite = plan_rename(
                source.graph,
                prefix=prefix,
                strip_prefix=strip_prefix,
                only=kinds,
                keep=ends,
                held=source.held,
            )
    notes = [*notes_on(source.parameter_file, source.graph), *rewrite.notes]
    return follow_rewrite(source, rewrite, notes=notes, needs_params=_renames_variables(rewrite))


def _check_ways(mapped: bool, inverse: bool, affixes: bool, by_rule: bool) -> None:
    hint = "give `prefix` and `strip_prefix`, `match={PATTERN:NAME}`, scopes, `rules=FILE`, or `map=FILE`"
    if mapped and (affixes or by_rule):
        raise UsageError(Fault("a map excludes prefixes and rules", hint=hint))
    if inverse and not mapped:
        raise UsageError(
            Fault("`inverse` needs the `map` that a rename wrote with `save(map=...)`")
        )
    if not (mapped or affixes or by_rule):
        raise UsageError(Fault("no rule or option for renaming", hint=hint))


class _NewNames(NamedTuple):
    names: Mapping[Node, str]
    stored: Mapping[Node, StoredNames] = EMPTY
    map_file: MapFile | None = None


def _read_new_names(
    graph: Graph,
    names: Mapping[str, str] | Mapping[Node, str] | None,
    map: StrPath | None,
    inverse: bool,
) -> _NewNames | None:
    if names is not None:
        by_node = {old: new for old, new in names.items() if isinstance(old, Node)}
        if by_node:
            return _NewNames(by_node)
        entries = [MapEntry(Place(None, str(old)), Place(None, new)) for old, new in names.items()]
        map_file = MapFile(entries, by_name=True)
    elif map is not None:
        map_file = read_map(map)
    else:
        return None
    new = names_from_map(map_file, graph, inverse=inverse)
    return _NewNames(new, read_stored_names(map_file, new, graph, inverse=inverse), map_file)


def _rename_by_map(
    source: Checkpoint, new: _NewNames, only: Collection[Only], inverse: bool
) -> Rewrite:
    rewrite = rename_by_names(
        source.graph, new.names, stored=new.stored, only=only, held=source.held, repeats=inverse
    )
    if not inverse or new.map_file is None or not new.map_file.sources:
        return rewrite
    # The inverse should restore the source's bytes, but the graph does not record string escapes.
    lost = ("the result is not, byte for byte, the file that the map was made from",)
    return restore_escapes(rewrite, new.map_file) or replace(rewrite, notes=lost)


_OPTION_KINDS: Mapping[str, Kind] = {
    "strip_prefix": "strip",
    "prefix": "prefix",
    "name_scopes": "name_scope",  # they lie around variable scopes
    "variable_scopes": "variable_scope",
}


def _list_option_rules(
    match: Mapping[str, str], affixes: Mapping[str, Sequence[str]]
) -> list[Rule]:
    rules = [
        Rule("match", old, to, place=f"`match={{{old!r}: {to!r}}}`", option=True)
        for old, to in match.items()
    ]
    for option, kind in _OPTION_KINDS.items():
        rules += [
            Rule(kind, text, place=f"`{option}={text!r}`", option=True) for text in affixes[option]
        ]
    return rules


def _renames_variables(rewrite: Rewrite) -> bool:
    images = rewrite.branches[0].images
    return bool(rewrite.renames) or any(
        new.name != old.name for old, new in images.items() if old.is_variable
    )
