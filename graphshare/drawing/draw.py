"""``draw``: draw a graph as text in one of three languages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from graphshare.analysis.branches import find_prefixes
from graphshare.analysis.roles import assign_roles
from graphshare.checkpoint.map_file import MapFile, Place
from graphshare.checkpoint.parameter_plan import list_parameter_names
from graphshare.drawing.dot import format_dot
from graphshare.drawing.mermaid import MAX_LINES, format_mermaid
from graphshare.drawing.palette import DARK, LIGHT, THEMES
from graphshare.drawing.picture import AnnotatedGraph, Picture, Shapes, make_picture
from graphshare.drawing.svg import add_dark_style, render_svg
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import reachable
from graphshare.text.short_repr import ShortRepr

PartialShape = tuple[int | None, ...]


class Drawing(ShortRepr, msgspec.Struct, frozen=True, eq=False):
    """A drawing as text, the picture that it shows, and remarks for the user."""

    text: str
    picture: Picture
    notes: tuple[str, ...] = ()


def draw(
    graph: Graph,
    *,
    to: str = "dot",
    depth: int | None = None,
    params: ParameterFile | None = None,
    shapes: Mapping[str, PartialShape] | None = None,
    prefixes: Sequence[str] = (),
    highlight: MapFile | None = None,
    all_parameters: bool = False,
    separator: str | None = None,
    theme: str = "auto",
    direction: str = "TB",
    title: str = "graph",
) -> Drawing:
    """Draw ``graph`` in ``dot``, ``mermaid`` or ``svg`` (by Graphviz).

    ``depth`` levels of scopes are open, by default as many as fit. ``prefixes`` name branches; by default the outputs tell
    them. ``highlight`` is the map of the rewrite that made the graph.

    Raises:
        InputError: the map is of another graph.
        RefusedError: a prefix that no operator has; shapes that contradict each other or that no variable has.
        GraphvizError: ``svg`` without Graphviz.
    """
    branches = _find_branches(graph, prefixes)
    annotated = AnnotatedGraph(
        graph,
        frozenset(node for node, role in assign_roles(graph, held=list_parameter_names(params)).items() if role.is_parameter),
        branches,
        _find_shapes(graph, _copy_to_twins(graph, shapes or {}, branches), params),
        {} if highlight is None else _find_former_names(graph, highlight),
    )
    picture = make_picture(annotated, depth=depth, all_parameters=all_parameters, separator=separator)
    notes = tuple(_remark(graph, picture, to, is_depth_given=depth is not None))
    return Drawing(_format_picture(picture, to, theme, direction, title), picture, notes)


def _remark(graph: Graph, picture: Picture, to: str, *, is_depth_given: bool) -> Iterator[str]:
    if not is_depth_given and picture.depth is not None:
        yield f"scopes are open to depth {picture.depth}; --depth N opens more or fewer"
    left_out = len(graph.nodes) - len(reachable(graph))
    if left_out:
        yield f"{left_out} nodes that no output needs are left out"
    if to == "mermaid" and len(picture.lines) > MAX_LINES:
        yield f"Mermaid draws {MAX_LINES} lines unless configured for more; this graph has {len(picture.lines)} (see --depth)"


def _format_picture(picture: Picture, to: str, theme: str, direction: str, title: str) -> str:
    palette = THEMES.get(theme, LIGHT)
    if to == "mermaid":
        return format_mermaid(picture, palette=palette, direction=direction)
    text = format_dot(picture, palette, title=title, direction=direction)
    if to == "svg":
        text = render_svg(text)
        text = add_dark_style(text, DARK) if theme == "auto" else text
    return text


def _find_branches(graph: Graph, prefixes: Sequence[str]) -> tuple[str, ...]:
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


def _copy_to_twins(graph: Graph, given: Mapping[str, PartialShape], prefixes: Sequence[str]) -> dict[str, PartialShape]:
    """Return the given shapes, those of one branch also for the same variables of other branches."""
    names = {node.name for node in graph.variables()}
    shapes = dict(given)
    for name, shape in given.items():
        own = max((p for p in prefixes if name.startswith(p)), key=len, default="")
        for prefix in ("", *prefixes):
            twin = prefix + name[len(own) :]
            if twin in names:
                shapes.setdefault(twin, shape)
    return shapes


def _find_shapes(graph: Graph, given: Mapping[str, PartialShape], params: ParameterFile | None) -> Shapes:
    """Return the completely known shapes, by node and output."""
    declared = any("__shape__" in node.attrs for node in graph.variables())
    if not given and not declared:
        return _read_stored_shapes(graph, params)
    from graphshare.execute.shape_report import infer_known_shapes  # start-up: inference needs numpy

    try:
        return infer_known_shapes(graph, given, params=params)
    except RefusedError:
        if given:
            raise
        return _read_stored_shapes(graph, params)  # the declared shapes contradict each other; draw without them


def _read_stored_shapes(graph: Graph, params: ParameterFile | None) -> Shapes:
    if params is None:
        return {}
    from graphshare.formats.params.lookup import RecordsByName  # start-up: only this path needs it

    records = RecordsByName(params)
    by_node = {(node, 0): records.of(node) for node in graph.variables()}
    return {key: record.shape for key, record in by_node.items() if record is not None and record.shape is not None}


def _find_former_names(graph: Graph, map_file: MapFile) -> dict[Node, str]:
    """Return the nodes of ``graph`` that a map renamed, with their former names."""
    entries = map_file.entries
    by_name: dict[str, list[Node]] = {}
    for node in graph.nodes:
        by_name.setdefault(node.name, []).append(node)
    names: dict[Node, str] = {}
    is_map_of_graph = False
    for entry in entries:
        for node in _nodes_at(graph, entry.target, by_name):
            is_map_of_graph = True
            if node.name != entry.source.name:
                names[node] = entry.source.name
    if entries and not is_map_of_graph:
        hint = "use the graph and the map that one rewrite wrote"
        raise InputError(Fault("names no node of this graph", where=map_file.where, hint=hint))
    return names


def _nodes_at(graph: Graph, place: Place | None, by_name: Mapping[str, Sequence[Node]]) -> Collection[Node]:
    if place is None:
        return ()
    if place.id is not None and 0 <= place.id < len(graph.nodes) and graph.nodes[place.id].name == place.name:
        return (graph.nodes[place.id],)
    return by_name.get(place.name, ())
