"""``rename``: give nodes other names, parameters along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

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
from graphshare.errors import Fault, UsageError, locate_refusals
from graphshare.ir.graph import Graph, Node, Rewrite
from graphshare.rewrite.rename import rename as rename_nodes
from graphshare.rewrite.rename import rename_by_rules
from graphshare.rewrite.rules.load import ruleset_of
from graphshare.rewrite.rules.model import Only, Rule, Ruleset


def rename(
    model: Model,
    rules: Ruleset | StrPath | None = None,
    *,
    prefix: str = "",
    strip_prefix: str = "",
    names: Mapping[str, str] | Mapping[Node, str] | None = None,
    map: StrPath | None = None,
    inverse: bool = False,
    match: Mapping[str, str] = MappingProxyType({}),
    variable_scopes: Names = (),
    name_scopes: Names = (),
    separator: Text | None = None,
    only: Only | Iterable[Only] = (),
) -> Checkpoint:
    """Give nodes other names, parameters along.

    Either ``strip_prefix`` is removed and ``prefix`` put before; or ``names`` (old to new; or a node to its new name) or the
    file ``map`` give the names, ``inverse`` the other way round; or ``rules`` do (a file, or what :func:`load_rules` gives),
    followed by ``match`` (pattern to name, each ``*`` in the name is what the pattern's next ``*`` matched) and scopes around
    all names (``variable_scopes``) or all but parameters' (``name_scopes``), whose parts ``separator`` separates (``/``).
    ``only`` limits it to ``variables``, ``ops``, ``inputs`` or ``parameters``. Names inside subgraphs stay: they bind by
    position.

    Raises:
        UsageError: nothing says how to rename, or two ways exclude each other.
        InputError: the map or rules file cannot be read, or names nodes that the graph does not have.
        RefusedError: no name would change, a node would lose its whole name, or names collide; all are listed.
    """
    by_rule = rules is not None or bool(match or as_names(variable_scopes) or as_names(name_scopes))
    _check_ways(names is not None or map is not None, inverse, bool(prefix or strip_prefix), by_rule)
    source = as_checkpoint(model)
    kinds: list[Only] = [only] if isinstance(only, str) else list(only)
    map_file = _as_map(names) if names is not None else read_map(map) if map is not None else None
    new = _new_names(source.graph, map_file, names, inverse)
    stored = read_stored_names(map_file, new or {}, source.graph, inverse=inverse) if map_file is not None else {}
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        if by_rule:
            more = [Rule("match", old, to, place=f"`match={{{old!r}: {to!r}}}`", option=True) for old, to in match.items()]
            more += _affixes(strip_prefix, prefix, as_names(variable_scopes), as_names(name_scopes))
            ruleset = ruleset_of(rules, more, separator=separator)
            rewrite = rename_by_rules(source.graph, ruleset, only=kinds, held=source.held)
        else:
            rewrite = rename_nodes(
                source.graph,
                prefix=prefix,
                strip_prefix=strip_prefix,
                names=new,
                stored=stored,
                only=kinds,
                held=source.held,
                repeats=inverse,
            )
    if inverse and map_file is not None and map_file.sources:
        exact = restore_escapes(rewrite, map_file)
        lost = ("the result is not, byte for byte, the file that the map was made from",)
        rewrite = exact or replace(rewrite, notes=lost)
    notes = [*notes_on(source.parameter_file, source.graph), *rewrite.notes]
    return follow_rewrite(source, rewrite, notes=notes, needs_params=_renames_variables(rewrite))


def _check_ways(mapped: bool, inverse: bool, affixes: bool, by_rule: bool) -> None:
    """Refuse calls that give names in no way, or in two that exclude each other."""
    hint = "give `prefix` and `strip_prefix`, `match={PATTERN:NAME}`, scopes, `rules=FILE`, or `map=FILE`"
    if mapped and (affixes or by_rule):
        raise UsageError(Fault("a map excludes prefixes and rules", hint=hint))
    if inverse and not mapped:
        raise UsageError(Fault("`inverse` needs the `map` that a rename wrote with `save(map=...)`"))
    if not (mapped or affixes or by_rule):
        raise UsageError(Fault("nothing says how to rename", hint=hint))


def _new_names(
    graph: Graph, map_file: MapFile | None, names: Mapping[str, str] | Mapping[Node, str] | None, inverse: bool
) -> dict[Node, str] | None:
    """Return the new names by node that a map, or names by node, give; None where neither is there."""
    if map_file is not None:
        return names_from_map(map_file, graph, inverse=inverse)
    return None if names is None else {node: name for node, name in names.items() if isinstance(node, Node)}


def _as_map(names: Mapping[str, str] | Mapping[Node, str]) -> MapFile | None:
    """Return names by old name as a map; None where they are by node."""
    if any(isinstance(old, Node) for old in names):
        return None
    return MapFile([MapEntry(Place(None, str(old)), Place(None, new)) for old, new in names.items()], by_name=True)


def _affixes(strip: str, prefix: str, variable_scopes: Sequence[str], name_scopes: Sequence[str]) -> list[Rule]:
    """Return the rules of prefixes and scopes. Name scopes lie around variable scopes."""
    rules = [Rule("strip", strip, place=f"`strip_prefix={strip!r}`", option=True)] if strip else []
    rules += [Rule("prefix", prefix, place=f"`prefix={prefix!r}`", option=True)] if prefix else []
    rules += [Rule("name_scope", scope, place=f"`name_scopes={scope!r}`", option=True) for scope in name_scopes]
    return rules + [Rule("variable_scope", s, place=f"`variable_scopes={s!r}`", option=True) for s in variable_scopes]


def _renames_variables(rewrite: Rewrite) -> bool:
    images = rewrite.branches[0].images
    return bool(rewrite.renames) or any(new.name != old.name for old, new in images.items() if old.is_variable)
