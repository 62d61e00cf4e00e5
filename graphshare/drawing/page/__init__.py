"""A page that shows a picture: one HTML file that needs nothing else, neither network nor Graphviz.

The data enter the page as JSON in which ``<`` is escaped, and its script writes them as text only; a content security policy
allows that script and no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files

from graphshare.drawing.details import Details
from graphshare.drawing.layout.arrange import arrange
from graphshare.drawing.layout.levels import Layout, Level, Link
from graphshare.drawing.layout.text_size import box_texts, title_width
from graphshare.drawing.palette import DARK, LIGHT, Palette
from graphshare.drawing.picture import Box, Picture
from graphshare.ir.graph import Node
from graphshare.text.format import escape_control

_SCRIPTS = ("placement.js", "view.js", "panel.js", "main.js")
_KINDS = ("box", "scope", "point", "gutter")


def format_page(picture: Picture, details: Details, *, theme: str = "auto", direction: str = "TB", title: str = "graph") -> str:
    """Return the page of a picture whose scopes are all open; ``picture.depth`` of them are open at first."""
    style = _read("page.css")
    script = "".join(map(_read, _SCRIPTS))
    script = f'(() => {{\n"use strict";\n{script}}})();\n'
    data = {
        "title": escape_control(title),
        "theme": theme,
        "direction": direction,
        "depth": picture.depth,
        "palettes": {"light": _describe_palette(LIGHT), "dark": _describe_palette(DARK)},
        **_describe_layout(picture, details),
    }
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    parts = {
        "@title@": escape(escape_control(title)),
        "@policy@": policy,
        "@style@": style,
        "@script@": script,
        "@data@": _format_data(data),
    }
    before, *rest = _read("page.html").split("@@")
    return before + "".join(parts.get(f"@{part}@", part) for part in rest)


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _format_data(data: object) -> str:
    """Return ``data`` as JSON that cannot end the element around it: without ``<``, and in ASCII."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _describe_palette(palette: Palette) -> dict[str, object]:
    kinds = {kind: [paint.fill, paint.stroke, paint.text] for kind, paint in palette.kinds.items()}
    return {
        "background": palette.background, "text": palette.text, "line": palette.line, "cluster": palette.cluster,
        "clusterFill": palette.cluster_fill, "sharedLine": palette.shared_line, "kinds": kinds,
    }  # fmt: skip


def _describe_layout(picture: Picture, details: Details) -> dict[str, object]:
    layout = arrange(picture)
    numbers = {node: number for number, node in enumerate(details.nodes)}
    return {
        "nodes": list(details.nodes.values()),
        "parameters": details.parameters,
        "notes": details.notes,
        "boxes": [_describe_box(box, numbers) for box in layout.boxes],
        "vertices": [[_KINDS.index(v.kind), v.level, v.content, *v.size] for v in layout.vertices],
        "at": layout.at,
        "levels": [_describe_level(layout, level) for level in layout.levels],
    }


def _describe_box(box: Box, numbers: dict[Node, int]) -> dict[str, object]:
    is_scope = box.kind == "scope"
    return {
        "kind": "highlight" if box.highlighted else box.kind,
        "shape": "cylinder" if box.kind in ("shared", "parameter") else "round" if box.kind == "input" else "",
        "texts": box_texts(box),
        "head": box.head,
        "nodes": [] if is_scope else [numbers[node] for node in box.nodes],
        "weights": box.weights,
    }


def _describe_level(layout: Layout, level: Level) -> dict[str, object]:
    return {
        "title": box_texts(Box("scope", level.title, [], None))[0],
        "titleWidth": title_width(level.title),
        "kind": level.kind,
        "depth": len(level.path),
        "vertex": level.vertex,
        "box": level.box,
        "rows": level.rows,
        "links": [_describe_link(link) for link in level.links],
        "long": [_describe_link(link) for link in level.long_links],
        "entrances": level.entrances,
        "exits": level.exits,
        "shared": [[shared.vertex, shared.gutter, shared.consumers] for shared in level.shared],
    }


def _describe_link(link: Link) -> list[object]:
    return [link.source, link.target, link.net, ["data", "control"].index(link.kind), int(link.reversed)]
