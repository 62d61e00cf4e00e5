"""A page that shows a picture: one HTML file that needs neither network nor Graphviz.

The data are JSON in which ``<`` is escaped, and the script writes them as text only; a content
security policy allows no other script. A click on a node shows its operator, attributes, shapes,
and parameters with their statistics.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from graphshare.drawing.layout.arrange import arrange
from graphshare.drawing.layout.levels import Layout, Link, ScopeLevel
from graphshare.drawing.layout.text_size import box_texts, title_width
from graphshare.drawing.operator_kinds import KINDS
from graphshare.drawing.palette import DARK, LIGHT, Palette
from graphshare.drawing.picture import MARKS, AnnotatedGraph, Box, Picture, Section
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import consumers
from graphshare.progress import task
from graphshare.text.format import escape_control, format_bytes, format_dims, format_number, shorten
from graphshare.text.markup import escape_html

if TYPE_CHECKING:
    from graphshare.formats.params.statistics import Statistics

_SCRIPTS = ("placement.js", "view.js", "panel.js", "main.js")
_LINKS = ("data", "control", "added", "removed")
_KINDS = ("box", "scope", "point", "gutter")
_SHAPES = {"shared": "cylinder", "parameter": "cylinder", "input": "round", "output": "round"}
_MOST_BYTES = 2_000_000_000  # of parameters that are read for statistics
_LONGEST_TEXT = 2000  # characters of a name or of an attribute
_MOST_USERS = 50
_BINS = 40

_Row = tuple[str, str | list[int]]  # a list of numbers is a histogram
_Table = dict[str, object]


def format_page(
    picture: Picture,
    details: Details,
    sections: Sequence[Section] = (),
    *,
    theme: str = "auto",
    direction: str = "TB",
    title: str = "graph",
) -> str:
    """Return the page of a picture whose scopes are all open; it first opens ``picture.depth``
    levels.

    The panel first shows ``sections``, the findings of a comparison.
    """
    style = _read("page.css")
    script = "".join(map(_read, _SCRIPTS))
    script = f'(() => {{\n"use strict";\n{script}}})();\n'
    data = {
        "title": escape_control(title),
        "theme": theme,
        "direction": direction,
        "depth": picture.depth,
        "palettes": {"light": _describe_palette(LIGHT), "dark": _describe_palette(DARK)},
        "kinds": KINDS,
        "marks": MARKS,
        "sections": _describe_sections(sections, details),
        **_describe_layout(picture, details),
    }
    # The hashes allow only this script and this style, so data cannot add any.
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src "
        f"data:; base-uri 'none'; "
        "form-action 'none'"
    )
    parts = {
        "@title@": escape_html(title),
        "@policy@": policy,
        "@style@": style,
        "@script@": script,
        "@data@": _format_data(data),
    }
    # One pass: a name in the data that looks like a placeholder is not replaced.
    before, *rest = _read("page.html").split("@@")
    return before + "".join(parts.get(f"@{part}@", part) for part in rest)


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _format_data(data: object) -> str:
    """Return JSON that cannot end the element around it: without ``<``, and in ASCII."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _describe_palette(palette: Palette) -> dict[str, object]:
    kinds = {
        kind: [paint.fill, paint.stroke, paint.text]
        for kind, paint in {**palette.kinds, **palette.marks}.items()
    }
    return {
        "background": palette.background, "text": palette.text, "line": palette.line, "cluster": palette.cluster,
        "clusterFill": palette.cluster_fill, "sharedLine": palette.shared_line, "kinds": kinds,
    }  # fmt: skip


def _describe_sections(sections: Sequence[Section], details: Details) -> list[object]:
    numbers = {node: number for number, node in enumerate(details.nodes)}
    described: list[object] = []
    for section in sections:
        lines = [
            [_cut(text), None if node is None else numbers.get(node)]
            for text, node in section.lines
        ]
        described.append([_cut(section.title), lines])
    return described


def _describe_layout(picture: Picture, details: Details) -> dict[str, object]:
    layout = arrange(picture)
    numbers = {node: number for number, node in enumerate(details.nodes)}
    return {
        "nodes": list(details.nodes.values()),
        "parameters": details.parameters,
        "notes": details.notes,
        "boxes": [_describe_box(box, numbers) for box in layout.boxes],
        "vertices": [
            [_KINDS.index(v.kind), v.level, v.content, *v.size, v.label] for v in layout.vertices
        ],
        "at": layout.at,
        "levels": [_describe_level(layout, level) for level in layout.levels],
    }


def _describe_box(box: Box, numbers: dict[Node, int]) -> dict[str, object]:
    is_scope = box.kind == "scope"
    return {
        "kind": box.paint,
        "shape": _SHAPES.get(box.kind, ""),
        "texts": box_texts(box),
        "label": box.label,
        # A folded scope may have thousands of nodes; their own boxes list them.
        "nodes": [] if is_scope else [numbers[node] for node in box.nodes],
        "weights": box.weights,
    }


def _describe_level(layout: Layout, level: ScopeLevel) -> dict[str, object]:
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
    return [link.source, link.target, link.net, _LINKS.index(link.kind), int(link.reversed)]


class Details(msgspec.Struct, frozen=True):
    """Tables of a page: ``nodes`` for the boxes' nodes, ``parameters`` by name, and ``notes`` for
    the reader.
    """

    nodes: Mapping[Node, _Table]
    parameters: Mapping[str, _Table]
    notes: tuple[str, ...] = ()


def describe_boxes(graph: AnnotatedGraph, files: Sequence[ParameterFile]) -> Details:
    """Return the details of every node, with statistics of the arrays of ``files``, read in pieces.

    Of two arrays of one name, the first file's is described.
    """
    users = consumers(graph.graph.nodes)
    measured: dict[Node, list[_Row]] = {}
    notes: dict[str, None] = {}
    for file in files:
        variables = [node for node in graph.graph.variables() if node not in measured]
        measured |= _measure(variables, file, notes)
    parameters: dict[str, _Table] = {}
    for node in graph.graph.nodes:
        if node not in graph.parameters:
            continue
        names = list(dict.fromkeys(user.name for user, _ in users.get(node, ())))
        parameters[_cut(node.name)] = {
            "shape": _format_shape(graph, Entry(node)),
            "users": [_cut(name) for name in names[:_MOST_USERS]],
            "count": len(names),
            "rows": measured.get(node, []),
        }
    outputs = _list_outputs(graph)
    nodes = {n: _describe_node(n, graph, outputs.get(n, ())) for n in graph.graph.nodes}
    return Details(nodes, parameters, tuple(notes))


def _describe_node(node: Node, graph: AnnotatedGraph, outputs: Sequence[str]) -> _Table:
    inputs: list[tuple[str, str]] = []
    parameters: dict[str, None] = {}
    for entry in node.inputs:
        name = _cut(entry.node.name)
        if entry.node in graph.parameters:
            parameters[name] = None
        else:
            inputs.append((name, _format_shape(graph, entry)))
    notes = list(graph.notes.get(node, ()))
    if node in graph.labels:
        notes.insert(0, graph.labels[node])
    return {
        "name": _cut(node.name),
        "op": node.op or "variable",
        "attrs": [(_cut(key), _cut(value)) for key, value in node.attrs.items()],
        "inputs": inputs,
        "outputs": outputs,
        "parameters": list(parameters),
        "notes": [_cut(note) for note in notes],
    }


def _format_shape(graph: AnnotatedGraph, entry: Entry) -> str:
    shape = graph.shapes.get((entry.node, entry.index))
    return "" if shape is None else format_dims(shape, separator="×")


def _list_outputs(graph: AnnotatedGraph) -> dict[Node, list[str]]:
    outputs: dict[Node, list[str]] = {}
    for (node, _), shape in sorted(graph.shapes.items(), key=lambda item: item[0][1]):
        outputs.setdefault(node, []).append(format_dims(shape, separator="×"))
    return outputs


def _measure(
    variables: Sequence[Node], params: ParameterFile, notes: dict[str, None]
) -> dict[Node, list[_Row]]:
    """Return the statistics of each parameter; if there are none, add the reason to ``notes``."""
    from graphshare.formats.params.statistics import count_in_bins, measure_array

    records = RecordsByName(params)
    by_node = {
        node: record
        for node in variables
        if (record := records.of(node)) is not None and not params.lacks(record)
    }
    total = sum(record.data_size for record in by_node.values())
    is_small = total <= _MOST_BYTES
    rows: dict[Node, list[_Row]] = {}
    with ArrayReader(params) as reader, task("measuring", total, "B") as advance:
        for node, record in by_node.items():
            rows[node] = [("dtype", record.dtype or "?"), ("size", format_bytes(record.data_size))]
            if is_small and record.shape is not None:
                statistics = measure_array(reader, record, advance)
                rows[node] += _format_statistics(statistics)
                counts = count_in_bins(reader, record, statistics, _BINS)
                if counts:
                    rows[node].append(("histogram", counts))
    if not is_small:
        notes[f"statistics are left out: the parameters have {format_bytes(total)}"] = None
    return rows


def _format_statistics(statistics: Statistics) -> list[_Row]:
    rows: list[_Row] = [
        (name, format_number(getattr(statistics, name)))
        for name in ("min", "max", "mean", "std", "norm")
    ]
    counts = [(name, getattr(statistics, name)) for name in ("zeros", "nans", "infinities")]
    rows += [(name, f"{count:,}") for name, count in counts if count or name == "zeros"]
    return rows


def _cut(text: str) -> str:
    return shorten(escape_control(text, keep="\n"), _LONGEST_TEXT)
