"""``draw``: a graph as a picture."""

from __future__ import annotations

from typing import Literal

from graphshare.api.models import Model, Names, Shapes, as_checkpoint, as_names, as_shapes
from graphshare.checkpoint.load import StrPath, locate_refusals
from graphshare.checkpoint.map_file import read_map
from graphshare.drawing.draw import Drawing
from graphshare.drawing.draw import draw as draw_graph
from graphshare.formats.paths import base_name


def draw(
    model: Model,
    *,
    to: Literal["html", "svg", "dot", "mermaid", "png", "pdf"] = "dot",
    depth: int | None = None,
    shapes: Shapes | None = None,
    prefixes: Names = (),
    highlight: StrPath | None = None,
    all_parameters: bool = False,
    separator: str | None = None,
    theme: Literal["auto", "light", "dark"] = "auto",
    direction: Literal["TB", "LR", "BT", "RL"] = "TB",
) -> Drawing:
    """Draw a graph as a page (``html``), as SVG, in Graphviz's language, in Mermaid, or by Graphviz as PNG or PDF.

    ``drawn.text`` is the drawing, ``drawn.data`` the bytes of its file; a notebook shows it.
    ``depth`` levels of scopes are open (all that fit, without it). ``prefixes`` name branches; without any they are found from
    the outputs. ``highlight`` is the map file of the rewrite that made the graph.

    Raises:
        InputError: the map cannot be read or is of another graph.
        RefusedError: a prefix that no operator has; shapes that contradict each other or that no variable has.
        GraphvizError: ``png`` or ``pdf`` without Graphviz.
    """
    source = as_checkpoint(model)
    map_file = read_map(highlight) if highlight else None
    with locate_refusals(source):
        return draw_graph(
            source.graph,
            to=to,
            depth=depth,
            params=source.parameter_file,
            shapes=as_shapes(shapes),
            prefixes=as_names(prefixes),
            highlight=map_file,
            all_parameters=all_parameters,
            separator=separator,
            theme=theme,
            direction=direction,
            title=base_name(source.stem or source.where) or "graph",
        )
