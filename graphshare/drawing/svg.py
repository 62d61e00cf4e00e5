"""SVG that follows the reader: light by itself, dark where the page or the system is dark."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.drawing.palette import Palette


def with_dark_style(svg: str, dark: Palette) -> str:
    """The SVG that Graphviz made, with a style sheet for dark surroundings. Its own colours are the light ones."""
    start = svg.find(">", svg.find("<svg")) + 1
    rules = "".join(_rules(dark))
    return f"{svg[:start]}\n<style>@media (prefers-color-scheme: dark) {{{rules}}}</style>{svg[start:]}"


def _rules(palette: Palette) -> Iterator[str]:
    shapes = ("path", "polygon", "ellipse", "polyline")
    yield f".graph>polygon{{fill:{palette.background}}}"
    yield f"text{{fill:{palette.text}}}"
    yield _rule(".cluster", shapes, f"fill:{palette.cluster_fill};stroke:{palette.cluster}")
    yield _rule(".edge", ("path",), f"stroke:{palette.line}")
    yield _rule(".edge", ("polygon",), f"fill:{palette.line};stroke:{palette.line}")
    yield _rule(".edge.shared", ("path",), f"stroke:{palette.shared_line}")
    yield _rule(".edge.shared", ("polygon",), f"fill:{palette.shared_line};stroke:{palette.shared_line}")
    for kind, paint in palette.kinds.items():
        yield _rule(f".node.{kind}", shapes, f"fill:{paint.fill};stroke:{paint.stroke}")
        yield f".node.{kind} text{{fill:{paint.text}}}"


def _rule(owner: str, shapes: tuple[str, ...], style: str) -> str:
    return f"{','.join(f'{owner} {shape}' for shape in shapes)}{{{style}}}"
