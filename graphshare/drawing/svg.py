"""SVG: Graphviz places and draws the boxes; a style sheet follows the reader's light or dark setting."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

from graphshare.drawing.palette import Palette
from graphshare.errors import Fault, GraphshareError

LIMIT = 120  # seconds


class GraphvizError(GraphshareError):
    """Graphviz is not installed, or could not draw the graph."""


def render_svg(dot: str) -> str:
    """Return the SVG that Graphviz draws of a graph in its language.

    Raises:
        GraphvizError: Graphviz is not installed, refuses the graph, or takes longer than ``LIMIT`` seconds.
    """
    program = shutil.which("dot")
    if program is None:
        hint = "install it (apt install graphviz, brew install graphviz), or draw with --to dot or --to mermaid"
        raise GraphvizError(Fault("svg needs Graphviz, but its program `dot` is not on the path", hint=hint))
    try:
        result = subprocess.run([program, "-Tsvg"], input=dot.encode(), capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        hint = "show less with --depth 1, or use --to dot and another program"
        raise GraphvizError(Fault(f"Graphviz did not finish within {LIMIT} s", hint=hint)) from None
    except OSError as error:
        raise GraphvizError(Fault(f"Graphviz cannot be started: {error.strerror}", where=program)) from error
    if result.returncode:
        messages = result.stderr.decode("utf-8", "replace").strip().splitlines()
        hint = "if the graph is large, show less with --depth 1"
        raise GraphvizError(Fault(f"Graphviz refuses the graph: {messages[-1] if messages else result.returncode}", hint=hint))
    return result.stdout.decode("utf-8", "replace")


def add_dark_style(svg: str, dark: Palette) -> str:
    """Return an SVG in light colours with a style sheet for dark pages."""
    start = svg.find(">", svg.find("<svg")) + 1
    rules = "".join(_format_rules(dark))
    return f"{svg[:start]}\n<style>@media (prefers-color-scheme: dark) {{{rules}}}</style>{svg[start:]}"


def _format_rules(palette: Palette) -> Iterator[str]:
    shapes = ("path", "polygon", "ellipse", "polyline")
    yield f".graph>polygon{{fill:{palette.background}}}"
    yield f"text{{fill:{palette.text}}}"
    yield _format_rule(".cluster", shapes, f"fill:{palette.cluster_fill};stroke:{palette.cluster}")
    yield _format_rule(".edge", ("path",), f"stroke:{palette.line}")
    yield _format_rule(".edge", ("polygon",), f"fill:{palette.line};stroke:{palette.line}")
    yield _format_rule(".edge.shared", ("path",), f"stroke:{palette.shared_line}")
    yield _format_rule(".edge.shared", ("polygon",), f"fill:{palette.shared_line};stroke:{palette.shared_line}")
    for kind, paint in palette.kinds.items():
        yield _format_rule(f".node.{kind}", shapes, f"fill:{paint.fill};stroke:{paint.stroke}")
        yield f".node.{kind} text{{fill:{paint.text}}}"


def _format_rule(owner: str, shapes: tuple[str, ...], style: str) -> str:
    return f"{','.join(f'{owner} {shape}' for shape in shapes)}{{{style}}}"
