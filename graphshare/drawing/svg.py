"""Write a picture as SVG; a style sheet follows the reader's light or dark setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphshare.drawing.layout.arrange import arrange
from graphshare.drawing.layout.levels import Layout
from graphshare.drawing.layout.placement import Rect, Route, place, split_label
from graphshare.drawing.layout.text_size import (
    LINE_SIZE,
    LINE_STEP,
    RIM,
    TITLE_SIZE,
    box_texts,
    shorten_middle,
)
from graphshare.drawing.palette import DARK, LIGHT, THEMES, Palette
from graphshare.drawing.picture import Box, Picture
from graphshare.text.markup import escape_html

FONT = "Helvetica,Arial,sans-serif"
MARGIN = 8
LONGEST_TIP = 1000


def format_svg(
    picture: Picture, *, theme: str = "auto", direction: str = "TB", title: str = "graph"
) -> str:
    """Return a picture as SVG.

    Boxes, scopes and lines are groups with their kind as ``class`` and the full name as title.
    """
    layout = arrange(picture)
    lines = _format_elements(layout, direction, THEMES.get(theme, LIGHT), theme == "auto", title)
    return "\n".join(lines) + "\n"


def _format_elements(
    layout: Layout, direction: str, palette: Palette, with_dark: bool, title: str
) -> Iterator[str]:
    placement = place(layout, direction=direction)
    width, height = placement.width + 2 * MARGIN, placement.height + 2 * MARGIN
    yield '<?xml version="1.0" encoding="UTF-8" standalone="no"?>'
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-MARGIN} {-MARGIN} {width:.0f} {height:.0f}" font-family="{FONT}" '
        f'style="max-width:100%;height:auto">'
    )
    yield f"<title>{escape_html(title)}</title>"
    if with_dark:
        # Attributes are light, and the rules override them: some programs ignore style sheets.
        yield f"<style>@media (prefers-color-scheme: dark) {{{''.join(_format_rules(DARK))}}}</style>"
    yield f'<rect class="paper" x="{-MARGIN}" y="{-MARGIN}" width="100%" height="100%" fill="{palette.background}"/>'
    for level in layout.levels[1:]:
        yield _format_scope(placement.rects[level.vertex], level.title, level.kind, palette)
    # In this order titles and boxes lie over lines, and lines over the areas of scopes.
    for route in placement.routes:
        yield _format_route(route, palette)
    for level in layout.levels[1:]:
        yield _format_scope_title(placement.rects[level.vertex], level.title, palette)
    for number, vertex in enumerate(layout.at):
        rect, middle = split_label(placement.rects[vertex], layout.vertices[vertex], direction)
        yield from _format_box(layout.boxes[number], rect, palette)
        if text := layout.boxes[number].label:
            yield _format_label(text, middle, palette)
    yield "</svg>"


def _format_scope(rect: Rect, title: str, kind: str, palette: Palette) -> str:
    return (
        f'<g class="cluster {kind}"><title>{escape_html(title)}</title>'
        f'<rect {_format_rect(rect)} rx="8" fill="{palette.cluster_fill}" stroke="{palette.cluster}"/></g>'
    )


def _format_scope_title(rect: Rect, title: str, palette: Palette) -> str:
    text = escape_html(shorten_middle(title))
    return (
        f'<text class="scope-title" x="{rect.x + 10:g}" y="{rect.y + 17:g}" '
        f'font-size="{TITLE_SIZE:g}" fill="{palette.text}" '
        f'stroke="{palette.cluster_fill}" stroke-width="4" paint-order="stroke">{text}</text>'
    )


def _format_rect(rect: Rect) -> str:
    return f'x="{rect.x:g}" y="{rect.y:g}" width="{rect.width:g}" height="{rect.height:g}"'


def _format_route(route: Route, palette: Palette) -> str:
    color = palette.shared_line if route.kind == "shared" else palette.line
    dash = {"shared": ' stroke-dasharray="5 3"', "control": ' stroke-dasharray="1 3"'}.get(
        route.kind, ""
    )
    tip = _format_arrow(route, color) if route.arrow else ""
    return (
        f'<g class="edge {route.kind}"><path d="{format_path(route.points)}" fill="none" stroke="{color}" '
        f'stroke-width="1.2"{dash}/>{tip}</g>'
    )


def format_path(points: Sequence[tuple[float, float]]) -> str:
    """Return cubic curves as the ``d`` of a path; a curve whose points are on its ends is a line."""
    parts = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for i in range(1, len(points) - 2, 3):
        start, a, b, end = points[i - 1 : i + 3]
        if start == end:
            continue
        if (a == start and b == end) or start[0] == end[0] == a[0] == b[0]:
            parts.append(f"L{end[0]:g} {end[1]:g}")
        else:
            parts.append(f"C{a[0]:g} {a[1]:g} {b[0]:g} {b[1]:g} {end[0]:g} {end[1]:g}")
    return "".join(parts)


def _format_arrow(route: Route, color: str) -> str:
    points = route.points if route.arrow == "end" else route.points[::-1]
    (x, y) = points[-1]
    # Control points may lie on the end, so the direction is taken from the last distinct point.
    before = next((p for p in reversed(points) if p != (x, y)), (x, y - 1))
    length = max(((x - before[0]) ** 2 + (y - before[1]) ** 2) ** 0.5, 1e-6)
    dx, dy = (x - before[0]) / length, (y - before[1]) / length
    corners = [
        (x, y),
        (x - 7 * dx - 3.2 * dy, y - 7 * dy + 3.2 * dx),
        (x - 7 * dx + 3.2 * dy, y - 7 * dy - 3.2 * dx),
    ]
    return f'<polygon points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}" fill="{color}"/>'


def _format_box(box: Box, rect: Rect, palette: Palette) -> Iterator[str]:
    paint = palette.kinds[box.paint]
    classes = dict.fromkeys((box.kind, box.paint))
    width = 1.8 if box.mark or box.kind == "shared" else 1
    yield f'<g class="node {" ".join(classes)}"><title>{escape_html((box.tip or box.title)[:LONGEST_TIP])}</title>'
    style = f'fill="{paint.fill}" stroke="{paint.stroke}" stroke-width="{width:g}"'
    if box.kind in ("shared", "parameter"):
        yield from _format_cylinder(rect, style)
    else:
        radius = rect.height / 2 if box.kind in ("input", "output") else 5
        yield f'<rect {_format_rect(rect)} rx="{radius:g}" {style}/>'
    texts = box_texts(box)
    y = (
        rect.y
        + (rect.height - LINE_STEP * len(texts)) / 2
        + 10.5
        + (RIM / 2 if box.kind in ("shared", "parameter") else 0)
    )
    for i, text in enumerate(texts):
        font = (
            f'font-size="{TITLE_SIZE:g}" font-weight="bold"'
            if i == 0
            else f'font-size="{LINE_SIZE:g}"'
        )
        at = f'x="{rect.x + rect.width / 2:g}" y="{y + i * LINE_STEP:g}" text-anchor="middle"'
        yield f'<text {at} {font} fill="{paint.text}">{escape_html(text)}</text>'
    yield "</g>"


def _format_label(text: str, middle: tuple[float, float], palette: Palette) -> str:
    # The rim in the background's colour keeps lines off the text.
    style = (
        f'fill="{palette.text}" stroke="{palette.background}" stroke-width="3" '
        f'paint-order="stroke" text-anchor="middle"'
    )
    at = f'x="{middle[0]:g}" y="{middle[1] + 4:g}" font-size="{LINE_SIZE:g}"'
    return f'<text class="label" {at} {style}>{escape_html(text)}</text>'


def _format_cylinder(rect: Rect, style: str) -> Iterator[str]:
    x, y, r = rect.x, rect.y + RIM / 2, rect.width / 2
    h = rect.height - RIM
    arc = f"a{r:g} {RIM / 2:g} 0 0"
    yield f'<path d="M{x:g} {y:g}v{h:g}{arc} 0 {2 * r:g} 0v{-h:g}{arc} 0 {-2 * r:g} 0" {style}/>'
    yield f'<ellipse cx="{x + r:g}" cy="{y:g}" rx="{r:g}" ry="{RIM / 2:g}" {style}/>'


def _format_rules(palette: Palette) -> Iterator[str]:
    shapes = ("path", "rect", "ellipse")
    yield f".paper{{fill:{palette.background}}}"
    yield f".label{{fill:{palette.text};stroke:{palette.background}}}"
    yield f".scope-title{{fill:{palette.text};stroke:{palette.cluster_fill}}}"
    yield f".cluster rect{{fill:{palette.cluster_fill};stroke:{palette.cluster}}}"
    for owner, color in ((".edge", palette.line), (".edge.shared", palette.shared_line)):
        yield f"{owner} path{{stroke:{color}}}{owner} polygon{{fill:{color}}}"
    for kind, paint in palette.kinds.items():
        owners = ",".join(f".node.{kind} {shape}" for shape in shapes)
        yield f"{owners}{{fill:{paint.fill};stroke:{paint.stroke}}}.node.{kind} text{{fill:{paint.text}}}"
