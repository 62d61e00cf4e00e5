"""``draw``: draw a graph as text, an image or a page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from typing import Literal

import msgspec

from graphshare.analysis.branches import find_prefixes
from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import assign_roles
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
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.drawing.languages import IMAGES, MAX_LINES, format_dot, format_mermaid, render_image
from graphshare.drawing.palette import LIGHT, THEMES
from graphshare.drawing.picture import (
    AnnotatedGraph,
    KnownShapes,
    Picture,
    Section,
    make_foldable_picture,
    make_picture,
)
from graphshare.drawing.svg import format_svg
from graphshare.drawing.unfold import unfold
from graphshare.errors import Fault, InputError, RefusedError, locate_refusals
from graphshare.files.paths import base_name
from graphshare.formats.model_format import find_format
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.ir.walk import reachable
from graphshare.ops.registry import visible_outputs
from graphshare.text.format import format_count, format_names
from graphshare.text.names import KnownPrefixes, suggest
from graphshare.text.summary import ShortRepr

PartialShape = tuple[int | None, ...]
Language = Literal["html", "svg", "dot", "mermaid", "png", "pdf"]
Theme = Literal["auto", "light", "dark"]
Direction = Literal["TB", "LR", "BT", "RL"]


class Drawing(ShortRepr, msgspec.Struct, frozen=True, eq=False):
    """A drawing as text (or ``image`` for PNG and PDF), its picture, and remarks for the user."""

    text: str
    picture: Picture
    notes: tuple[str, ...] = ()
    image: bytes = b""

    @property
    def data(self) -> bytes:
        return self.image or self.text.encode("utf-8", "backslashreplace")

    def _repr_svg_(self) -> str | None:
        """Return SVG for notebooks, None for a page."""
        if self.text.startswith("<!doctype html>"):
            return None
        return self.text if self.text.startswith("<?xml") else format_svg(self.picture)

    def _repr_html_(self) -> str | None:
        """Return a page as a frame, None for other drawings."""
        if not self.text.startswith("<!doctype html>"):
            return None
        style = "width:100%;height:600px;border:1px solid #8886"
        # The script of a page runs in a frame without an origin, so it cannot reach the notebook.
        return f'<iframe sandbox="allow-scripts" srcdoc="{escape(self.text)}" style="{style}"></iframe>'


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
        form = _Form(to, theme, direction, base_name(source.stem or source.where) or "graph")
        text = (
            _format_page(annotated, picture, [params], form)
            if to == "html"
            else _format_picture(picture, form)
        )
        if to in IMAGES:
            return Drawing("", picture, tuple(notes), render_image(text, to))
        return Drawing(text, picture, tuple(notes))


def annotate(
    graph: Graph,
    params: ParameterFile | None,
    shapes: KnownShapes,
    branches: Sequence[str] = (),
    *,
    former: Mapping[Node, str] = EMPTY,
) -> AnnotatedGraph:
    """Unfold a graph and annotate it with everything that a picture shows."""
    unfolded = unfold(graph)
    roles = assign_roles(unfolded.graph, held=list_parameter_names(params))
    images = unfolded.images
    return AnnotatedGraph(
        unfolded.graph,
        frozenset(node for node, role in roles.items() if role.is_parameter),
        tuple(branches),
        {(images.get(node, node), index): shape for (node, index), shape in shapes.items()},
        {images.get(node, node): "highlight" for node in former},
        {images.get(node, node): f"was {name}" for node, name in former.items()},
        bodies=unfolded.bodies,
        images=images,
    )


class _Form(msgspec.Struct, frozen=True):
    to: str
    theme: str
    direction: str
    title: str


def draw_comparison(
    graph: AnnotatedGraph,
    files: Sequence[ParameterFile | None],
    sections: Sequence[Section],
    *,
    title: str,
    theme: str = "auto",
) -> Drawing:
    """Return a page of two merged graphs; ``sections`` describe the findings."""
    picture = make_foldable_picture(graph, depth=None)
    return Drawing(
        _format_page(graph, picture, files, _Form("html", theme, "TB", title), sections), picture
    )


def _format_page(
    graph: AnnotatedGraph,
    picture: Picture,
    files: Sequence[ParameterFile | None],
    form: _Form,
    sections: Sequence[Section] = (),
) -> str:
    # Start-up: only pages need them
    from graphshare.drawing.page import describe_boxes, format_page

    details = describe_boxes(graph, [file for file in files if file is not None])
    return format_page(
        picture, details, sections, theme=form.theme, direction=form.direction, title=form.title
    )


def _format_picture(picture: Picture, form: _Form) -> str:
    palette = THEMES.get(form.theme, LIGHT)
    if form.to == "mermaid":
        return format_mermaid(picture, palette=palette, direction=form.direction)
    if form.to == "svg":
        return format_svg(picture, theme=form.theme, direction=form.direction, title=form.title)
    return format_dot(picture, palette, title=form.title, direction=form.direction)


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


def find_branches(graph: Graph, prefixes: Sequence[str]) -> tuple[str, ...]:
    """Return the prefixes of a graph's branches; find them if ``prefixes`` is empty. Raises
    RefusedError.
    """
    names = [node.name for node in graph.nodes if not node.is_variable]
    # Sorted, each prefix is found by one search.
    ordered = sorted(names) if prefixes else []
    places = [(prefix, bisect_left(ordered, prefix)) for prefix in prefixes]
    missing = [
        prefix for prefix, i in places if i == len(ordered) or not ordered[i].startswith(prefix)
    ]
    if missing:
        hints = {prefix: suggest(prefix, names, "operators") for prefix in missing}
        raise RefusedError(
            [
                Fault(f"no operator's name begins with the prefix {p!r}", hint=hint)
                for p, hint in hints.items()
            ]
        )
    if prefixes:
        return tuple(prefixes)
    try:
        return tuple(find_prefixes(graph))
    except RefusedError:
        return ()  # one branch


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


def find_known_shapes(
    graph: Graph, input_shapes: Mapping[str, PartialShape], params: ParameterFile | None
) -> KnownShapes:
    """Return the completely known shapes, by node and output."""
    declared = any("__shape__" in node.attrs for node in graph.variables())
    # Only the parameters' own shapes are known, so numpy is not imported.
    if not input_shapes and not declared and not find_format(graph).types.are_stated:
        return _read_stored_shapes(graph, params)
    # Start-up: inference needs numpy
    from graphshare.execute.prepare.shape_report import infer_known_shapes

    try:
        return infer_known_shapes(graph, input_shapes, params=params)
    except RefusedError:
        if input_shapes or find_format(graph).types.are_stated:
            raise
        # The declared shapes contradict each other; draw without them
        return _read_stored_shapes(graph, params)


def _read_stored_shapes(graph: Graph, params: ParameterFile | None) -> KnownShapes:
    if params is None:
        return {}
    records = RecordsByName(params)
    by_node = {(node, 0): records.of(node) for node in graph.variables()}
    return {
        key: record.shape
        for key, record in by_node.items()
        if record is not None and record.shape is not None
    }


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
