"""``draw``: a graph's picture as text in one of three languages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from graphshare.analysis.branches import find_prefixes
from graphshare.analysis.roles import assign_roles
from graphshare.checkpoint.map_entries import Place, entries_of
from graphshare.checkpoint.parameter_plan import held_names
from graphshare.drawing.palette import DARK, LIGHT, THEMES
from graphshare.drawing.picture import Picture, Shapes, Subject, picture
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import reachable


class Drawn(msgspec.Struct, frozen=True, eq=False):
    """``text`` in the language asked for, with what it shows and what there is to say of it."""

    text: str
    picture: Picture
    notes: tuple[str, ...] = ()


def draw(
    graph: Graph,
    *,
    to: str = "dot",
    depth: int | None = None,
    params: ParameterFile | None = None,
    shapes: Mapping[str, tuple[int | None, ...]] | None = None,
    prefixes: Sequence[str] = (),
    highlight: bytes | None = None,
    highlight_where: str = "",
    all_parameters: bool = False,
    separator: str | None = None,
    theme: str = "auto",
    direction: str = "TB",
    title: str = "graph",
) -> Drawn:
    """The picture of ``graph`` in ``dot``, ``mermaid`` or ``svg`` (by Graphviz).

    ``depth`` levels of scopes are open (all that fit, without it). ``prefixes`` name branches; without any they are found from
    the outputs. ``highlight`` is the map of the rewrite that made the graph.

    Raises:
        InputError: the map is none, or speaks of another graph.
        RefusedError: a prefix that no operator bears; shapes that contradict each other or that no variable has.
        GraphvizError: ``svg`` without Graphviz.
    """
    notes = []
    roles = assign_roles(graph, held=held_names(params))
    parameters = frozenset(node for node, role in roles.items() if role.is_parameter)
    branches = _branches(graph, prefixes)
    known = _shapes(graph, _for_twins(graph, shapes or {}, branches), params)
    former = {} if highlight is None else _former(graph, highlight, highlight_where)
    subject = Subject(graph, parameters, branches, known, former)
    found = picture(subject, depth=depth, all_parameters=all_parameters, separator=separator)
    if depth is None and found.depth is not None:
        notes.append(f"scopes are open to depth {found.depth}; --depth N opens more or fewer")
    left_out = len(graph.nodes) - len(reachable(graph))
    if left_out:
        notes.append(f"{left_out} nodes that no output needs are left out")
    palette = THEMES.get(theme, LIGHT)
    if to == "mermaid":
        from graphshare.drawing.mermaid import MAX_LINES, mermaid_text

        if len(found.lines) > MAX_LINES:
            notes.append(f"Mermaid draws {MAX_LINES} lines unless set up for more; these are {len(found.lines)} (see --depth)")
        return Drawn(mermaid_text(found, palette=palette, direction=direction), found, tuple(notes))
    from graphshare.drawing.dot import dot_text

    text = dot_text(found, palette, title=title, direction=direction)
    if to == "svg":
        from graphshare.drawing.graphviz import render
        from graphshare.drawing.svg import with_dark_style

        text = render(text)
        text = with_dark_style(text, DARK) if theme == "auto" else text
    return Drawn(text, found, tuple(notes))


def _branches(graph: Graph, prefixes: Sequence[str]) -> tuple[str, ...]:
    names = [node.name for node in graph.nodes if not node.is_variable]
    missing = [prefix for prefix in prefixes if not any(name.startswith(prefix) for name in names)]
    if missing:
        raise RefusedError([Fault(f"no operator's name begins with the prefix {prefix!r}") for prefix in missing])
    if prefixes:
        return tuple(prefixes)
    try:
        return tuple(find_prefixes(graph))
    except RefusedError:
        return ()  # one branch


def _for_twins(
    graph: Graph, given: Mapping[str, tuple[int | None, ...]], prefixes: Sequence[str]
) -> dict[str, tuple[int | None, ...]]:
    """What is given for one branch holds for its twins in the others."""
    names = {node.name for node in graph.variables()}
    found = dict(given)
    for name, shape in given.items():
        own = max((p for p in prefixes if name.startswith(p)), key=len, default="")
        for prefix in ("", *prefixes):
            twin = prefix + name[len(own) :]
            if twin in names:
                found.setdefault(twin, shape)
    return found


def _shapes(graph: Graph, given: Mapping[str, tuple[int | None, ...]], params: ParameterFile | None) -> Shapes:
    """The shapes that are fully known, by node and output."""
    declared = any("__shape__" in node.attrs for node in graph.variables())
    if not given and not declared:
        return _held_shapes(graph, params)
    from graphshare.execute.shape_report import known_shapes  # brings numpy along

    try:
        return known_shapes(graph, given, params=params)
    except RefusedError:
        if given:
            raise
        return _held_shapes(graph, params)  # what the file declares does not fit together; a picture can do without


def _held_shapes(graph: Graph, params: ParameterFile | None) -> Shapes:
    if params is None:
        return {}
    from graphshare.formats.params.lookup import RecordsByName

    records = RecordsByName(params)
    found = {(node, 0): records.of(node) for node in graph.variables()}
    return {key: record.shape for key, record in found.items() if record is not None and record.shape is not None}


def _former(graph: Graph, data: bytes, where: str) -> dict[Node, str]:
    """The nodes of ``graph`` that a map renamed, with their former names."""
    entries = entries_of(data, where)
    by_name: dict[str, list[Node]] = {}
    for node in graph.nodes:
        by_name.setdefault(node.name, []).append(node)
    found: dict[Node, str] = {}
    met = False
    for entry in entries:
        for node in _meant(graph, entry.target, by_name):
            met = True
            if node.name != entry.source.name:
                found[node] = entry.source.name
    if entries and not met:
        hint = "draw the graph that the rewrite wrote, with the map that it wrote"
        raise InputError(Fault("speaks of no node of this graph", where=where, hint=hint))
    return found


def _meant(graph: Graph, place: Place | None, by_name: Mapping[str, Sequence[Node]]) -> Collection[Node]:
    if place is None:
        return ()
    if place.id is not None and 0 <= place.id < len(graph.nodes) and graph.nodes[place.id].name == place.name:
        return (graph.nodes[place.id],)
    return by_name.get(place.name, ())
