"""Drawings of annotated graphs: text, an image or a page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from html import escape
from typing import Literal

import msgspec

from graphshare.analysis.branches import find_prefixes
from graphshare.analysis.roles import assign_roles
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.drawing.languages import IMAGES, format_dot, format_mermaid, render_image
from graphshare.drawing.palette import LIGHT, THEMES
from graphshare.drawing.picture import (
    AnnotatedGraph,
    KnownShapes,
    Picture,
    Section,
    make_foldable_picture,
)
from graphshare.drawing.svg import format_svg
from graphshare.drawing.unfold import unfold
from graphshare.errors import Fault, RefusedError
from graphshare.files.paths import base_name
from graphshare.formats.model_format import find_format
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.text.names import suggest
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


def annotate_model(model: Checkpoint) -> AnnotatedGraph:
    """Annotate a model's graph with its branches and the shapes that its files state."""
    graph, params = model.graph, model.parameter_file
    return annotate(graph, params, find_known_shapes(graph, {}, params), find_branches(graph, ()))


class DrawingForm(msgspec.Struct, frozen=True):
    """The language, colours, direction and title of a drawing."""

    to: str
    theme: str
    direction: str
    title: str


def draw_comparison(
    graph: AnnotatedGraph,
    models: Sequence[Checkpoint],
    sections: Sequence[Section],
    *,
    theme: str,
) -> Drawing:
    """Return a page of two merged graphs, those of ``models``; ``sections`` describe the findings."""
    title = " → ".join(
        base_name(model.stem or model.where) or "graph" for model in reversed(models)
    )
    return format_drawing(
        graph,
        make_foldable_picture(graph, depth=None),
        [model.parameter_file for model in models],
        DrawingForm("html", theme, "TB", title),
        sections,
    )


def format_drawing(
    graph: AnnotatedGraph,
    picture: Picture,
    files: Sequence[ParameterFile | None],
    form: DrawingForm,
    sections: Sequence[Section] = (),
    *,
    notes: Sequence[str] = (),
) -> Drawing:
    """Return a picture in the language of ``form``; a page shows ``files`` and ``sections`` too.

    Raises:
        GraphvizError: an image is asked for, and Graphviz is not installed.
    """
    if form.to == "html":
        text = _format_page(graph, picture, files, form, sections)
        return Drawing(text, picture, tuple(notes))
    text = _format_picture(picture, form)
    if form.to in IMAGES:
        return Drawing("", picture, tuple(notes), render_image(text, form.to))
    return Drawing(text, picture, tuple(notes))


def _format_page(
    graph: AnnotatedGraph,
    picture: Picture,
    files: Sequence[ParameterFile | None],
    form: DrawingForm,
    sections: Sequence[Section],
) -> str:
    # Start-up: only pages need them
    from graphshare.drawing.page import describe_boxes, format_page

    details = describe_boxes(graph, [file for file in files if file is not None])
    return format_page(
        picture, details, sections, theme=form.theme, direction=form.direction, title=form.title
    )


def _format_picture(picture: Picture, form: DrawingForm) -> str:
    palette = THEMES.get(form.theme, LIGHT)
    if form.to == "mermaid":
        return format_mermaid(picture, palette=palette, direction=form.direction)
    if form.to == "svg":
        return format_svg(picture, theme=form.theme, direction=form.direction, title=form.title)
    return format_dot(picture, palette, title=form.title, direction=form.direction)


def find_branches(graph: Graph, prefixes: Sequence[str]) -> tuple[str, ...]:
    """Return the prefixes of a graph's branches; find them if ``prefixes`` is empty. Raises
    RefusedError.
    """
    if prefixes:
        _check_prefixes(graph, prefixes)
        return tuple(prefixes)
    try:
        return tuple(find_prefixes(graph))
    except RefusedError:
        return ()  # one branch


def _check_prefixes(graph: Graph, prefixes: Sequence[str]) -> None:
    names = [node.name for node in graph.nodes if not node.is_variable]
    ordered = sorted(names)
    faults = []
    for prefix in dict.fromkeys(prefixes):
        # Sorted, names with the prefix follow the place of the prefix itself.
        place = bisect_left(ordered, prefix)
        if place == len(ordered) or not ordered[place].startswith(prefix):
            hint = suggest(prefix, names, "operators")
            faults.append(Fault(f"no operator's name begins with the prefix {prefix!r}", hint=hint))
    if faults:
        raise RefusedError(faults)


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
