"""Write a picture in Mermaid's language, which GitHub, GitLab and many editors draw in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.drawing.palette import LIGHT, Palette
from graphshare.drawing.picture import Box, Picture
from graphshare.text.format import escape_control

MAX_LINES = 500  # Mermaid's default limit

_ENTITIES = {'"': "quot", "<": "lt", ">": "gt", "&": "amp"}
_FORMS = {"input": ("([", "])"), "shared": ("[(", ")]"), "parameter": ("[(", ")]"), "scope": ("[[", "]]")}


def format_mermaid(picture: Picture, *, palette: Palette = LIGHT, direction: str = "TB") -> str:
    """Return the text of a Mermaid flowchart; its boxes are readable on light and on dark pages."""
    return "\n".join(_format_statements(picture, palette, direction)) + "\n"


def _format_statements(picture: Picture, palette: Palette, direction: str) -> Iterator[str]:
    yield f"flowchart {direction}"
    yield from _format_boxes(picture)
    for line in picture.lines:
        arrow = {"shared": "-.->", "control": "-.-"}.get(line.kind, "-->")
        label = "<br/>".join(map(_escape, line.labels[:3]))
        arrow += f'|"{label}"|' if label else ""
        yield f"  n{line.source} {arrow} n{line.target}"
    for kind, paint in palette.kinds.items():
        yield f"  classDef {kind} fill:{paint.fill},stroke:{paint.stroke},color:{paint.text}"
    heads = [f"n{number}" for number, box in enumerate(picture.boxes) if box.head]
    if heads:
        yield "  classDef head stroke-width:3px"
        yield f"  class {','.join(heads)} head"
    shared = [str(i) for i, line in enumerate(picture.lines) if line.kind == "shared"]
    if shared:
        yield f"  linkStyle {','.join(shared)} stroke:{palette.shared_line}"


def _format_boxes(picture: Picture) -> Iterator[str]:
    several = len(picture.branches) > 1
    opened: tuple[str, ...] = ()
    count = 0
    order = sorted(range(len(picture.boxes)), key=lambda n: _cluster_path(picture.boxes[n], several))
    for number in order:
        box = picture.boxes[number]
        path = _cluster_path(box, several)
        common = 0
        while common < min(len(path), len(opened)) and path[common] == opened[common]:
            common += 1
        for depth in range(len(opened), common, -1):
            yield f"{'  ' * depth}end"
        for depth in range(common, len(path)):
            title = path[depth] or "original"
            yield f'{"  " * (depth + 1)}subgraph s{count}["{_escape(title)}"]'
            count += 1
        opened = path
        yield f"{'  ' * (len(path) + 1)}{_format_box(number, box)}"
    for depth in range(len(opened), 0, -1):
        yield f"{'  ' * depth}end"


def _cluster_path(box: Box, several: bool) -> tuple[str, ...]:
    if box.cluster is None:
        return ()
    return box.cluster if several else box.cluster[1:]


def _format_box(number: int, box: Box) -> str:
    start, end = _FORMS.get(box.kind, ("[", "]"))
    label = "<br/>".join(map(_escape, (box.title, *box.lines)))
    classes = f":::{'highlight' if box.highlighted else box.kind}"
    return f'n{number}{start}"{label}"{end}{classes}'


def _escape(text: str) -> str:
    """Return ``text`` with Mermaid's entities for all characters that have a meaning in Mermaid or HTML."""
    escaped = escape_control(text[:200]).replace("#", "#35;")
    escaped = "".join(f"#{_ENTITIES[c]};" if c in _ENTITIES else c for c in escaped)
    return escaped.replace("`", "#96;")
