"""``draw``: draw a graph as text, an image or a page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from graphshare.analysis.name_lists import output_name
from graphshare.arguments import Natural, Text
from graphshare.checkpoint.load import (
    Model,
    Names,
    Shapes,
    StrPath,
    as_checkpoint,
    as_names,
    as_shapes,
)
from graphshare.checkpoint.map_file import MapFile, Place, read_map
from graphshare.drawing.drawing import (
    Direction,
    Drawing,
    DrawingForm,
    Language,
    PartialShape,
    Theme,
    annotate,
    find_branches,
    find_known_shapes,
    format_drawing,
)
from graphshare.drawing.languages import MAX_LINES
from graphshare.drawing.picture import KnownShapes, Picture, make_foldable_picture, make_picture
from graphshare.errors import Fault, InputError, locate_refusals
from graphshare.files.paths import base_name
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import reachable
from graphshare.ops.registry import visible_outputs
from graphshare.text.format import format_count, format_names
from graphshare.text.names import KnownPrefixes


def draw(
    model: Model,
    *,
    to: Language = "dot",
    depth: Natural | None = None,
    shapes: Shapes | None = None,
    prefixes: Names = (),
    highlight: StrPath | None = None,
    all_parameters: bool = False,
    separator: Text | None = None,
    theme: Theme = "auto",
    direction: Direction = "TB",
) -> Drawing:
    """Draw a graph: ``to`` a page (``html``), ``svg``, Graphviz's ``dot``, ``mermaid``, or by
    Graphviz ``png`` or ``pdf``.

    ``drawn.text`` is the drawing, ``drawn.data`` the bytes of its file; a notebook shows it.
    ``separator`` separates scopes in names (by default ``/``, or ``_`` where that makes sense).
    ``depth`` is the number of open levels of scopes; by default as many as fit are open.
    ``all_parameters`` draws each parameter as a box. ``direction`` is the direction of data flow
    (``TB``: from top to bottom). ``theme`` selects the colours; ``auto`` suits light and dark
    settings in SVG. ``prefixes`` name branches; by default they are found from the outputs.
    ``highlight`` is the map file of the rewrite that made the graph.

    Raises:
        InputError: the map cannot be read or belongs to another graph.
        RefusedError: no operator has one of the prefixes; shapes contradict each other or name no
            variable.
        GraphvizError: ``png`` or ``pdf`` is requested and Graphviz is not installed.
    """
    source = as_checkpoint(model)
    map_file = read_map(highlight) if highlight else None
    with locate_refusals(source):
        graph, params = source.graph, source.parameter_file
        branches = find_branches(graph, as_names(prefixes))
        known = find_known_shapes(
            graph, _copy_to_twins(graph, as_shapes(shapes, graph), branches), params
        )
        annotated = annotate(
            graph,
            params,
            known,
            branches,
            former=_find_former_names(graph, map_file) if map_file else {},
        )
        make = make_foldable_picture if to == "html" else make_picture
        picture = make(annotated, depth=depth, all_parameters=all_parameters, separator=separator)
        missing = [] if params is None else params.list_missing()
        notes = [f"drawn without the values of weights: {format_names(missing)}"] if missing else []
        notes += _remark(graph, known, picture, to, is_depth_given=depth is not None)
        form = DrawingForm(to, theme, direction, base_name(source.stem or source.where) or "graph")
        return format_drawing(annotated, picture, [params], form, notes=notes)


def _remark(
    graph: Graph, known: KnownShapes, picture: Picture, to: str, *, is_depth_given: bool
) -> Iterator[str]:
    if not is_depth_given and picture.depth is not None and to != "html":
        yield f"scopes are open to depth {picture.depth}; `depth=N` opens more or fewer"
    nodes = reachable(graph)
    if find_format(graph).types.are_stated:
        entries = [entry for node in nodes for entry in visible_outputs(node)]
        unknown = [
            output_name(entry) for entry in entries if (entry.node, entry.index) not in known
        ]
        if unknown:
            yield find_format(graph).types.explain_unknown_types(unknown)
    left_out = len(graph.nodes) - len(nodes)
    if left_out:
        yield f"left out: {format_count(left_out, 'node')} that no output needs"
    if to == "mermaid" and len(picture.lines) > MAX_LINES:
        yield (
            f"Mermaid draws {MAX_LINES} lines unless configured for more; this graph has "
            f"{len(picture.lines)} (see `depth`)"
        )


def _copy_to_twins(
    graph: Graph, input_shapes: Mapping[str, PartialShape], prefixes: Sequence[str]
) -> dict[str, PartialShape]:
    """Apply a shape given for one branch to the others."""
    names = {node.name for node in graph.variables()}
    shapes, known = dict(input_shapes), KnownPrefixes(prefixes)
    for name, shape in input_shapes.items():
        own = known.find_longest(name)
        # The empty prefix is the original branch.
        for prefix in ("", *prefixes):
            twin = prefix + name[len(own) :]
            if twin in names:
                shapes.setdefault(twin, shape)
    return shapes


def _find_former_names(graph: Graph, map_file: MapFile) -> dict[Node, str]:
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


def _nodes_at(
    graph: Graph, place: Place | None, by_name: Mapping[str, Sequence[Node]]
) -> Collection[Node]:
    if place is None:
        return ()
    # The file may have been edited since: an id counts only where the name fits too.
    if (
        place.id is not None
        and 0 <= place.id < len(graph.nodes)
        and graph.nodes[place.id].name == place.name
    ):
        return (graph.nodes[place.id],)
    return by_name.get(place.name, ())
