"""``draw``: a graph as a picture."""

from __future__ import annotations

from typing import Literal

from graphshare.api.models import Model, Names, Shapes, as_checkpoint, as_names, as_shapes
from graphshare.arguments import Natural, Text
from graphshare.checkpoint.load import StrPath
from graphshare.checkpoint.map_file import read_map
from graphshare.drawing.draw import Drawing
from graphshare.drawing.draw import draw as draw_graph
from graphshare.errors import locate_refusals
from graphshare.files.paths import base_name

Language = Literal["html", "svg", "dot", "mermaid", "png", "pdf"]
Theme = Literal["auto", "light", "dark"]
Direction = Literal["TB", "LR", "BT", "RL"]


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
    """Draw a graph: ``to`` a page (``html``), ``svg``, Graphviz's ``dot``, ``mermaid``, or by Graphviz ``png`` or ``pdf``.

    ``drawn.text`` is the drawing, ``drawn.data`` the bytes of its file; a notebook shows it. ``separator`` parts scopes in
    names (else ``/``, or ``_`` where that makes sense); ``depth`` levels of them are open (all that fit, without it).
    ``all_parameters`` draws each parameter as a box. ``direction`` is where the data flow (``TB``: from top to bottom),
    ``theme`` the colours; ``auto`` suits both in SVG. ``prefixes`` name branches; without any they are found from the outputs.
    ``highlight`` is the map file of the rewrite that made the graph.

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
            shapes=as_shapes(shapes, source.graph),
            prefixes=as_names(prefixes),
            highlight=map_file,
            all_parameters=all_parameters,
            separator=separator,
            theme=theme,
            direction=direction,
            title=base_name(source.stem or source.where) or "graph",
        )
