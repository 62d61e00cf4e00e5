"""``rename``: new names for nodes and their parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from graphshare.api.load_rules import make_ruleset
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
from graphshare.ir.graph import EMPTY, Graph, Node, Rewrite
from graphshare.ir.rebuild import StoredNames
from graphshare.rewrite.rename_nodes import plan_rename, rename_by_names, rename_by_rules
from graphshare.rewrite.rules.model import Boundary, Kind, Only, Rule, Ruleset


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
    has_scopes = bool(affixes["name_scopes"] or affixes["variable_scopes"])
    by_rule = rules is not None or bool(match) or has_scopes
    by_map = names is not None or map is not None
    _check_ways(by_map, inverse, bool(prefix or strip_prefix), by_rule)
    source = as_checkpoint(model)
    kinds: list[Only] = [only] if isinstance(only, str) else list(only)
    ends: list[Boundary] = [keep] if isinstance(keep, str) else list(keep)
    if ends and by_map:
        hint = "leave the inputs and outputs out of the map"
        raise UsageError(Fault("a map excludes `keep`", hint=hint))
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
    by_option = affixes or by_rule
    if mapped and by_option:
        raise UsageError(Fault("a map excludes prefixes and rules", hint=hint))
    if inverse and not mapped:
        message = "`inverse` needs the `map` that a rename wrote with `save(map=...)`"
        raise UsageError(Fault(message))
    if not mapped and not by_option:
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
    rules = []
    for old, to in match.items():
        rules.append(Rule("match", old, to, place=f"`match={{{old!r}: {to!r}}}`", option=True))
    for option, kind in _OPTION_KINDS.items():
        for text in affixes[option]:
            rules.append(Rule(kind, text, place=f"`{option}={text!r}`", option=True))
    return rules


def _renames_variables(rewrite: Rewrite) -> bool:
    if rewrite.renames:
        return True
    images = rewrite.branches[0].images.items()
    return any(new.name != old.name for old, new in images if old.is_variable)
