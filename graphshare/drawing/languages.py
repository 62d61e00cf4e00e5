"""A picture as Graphviz or Mermaid text, and as PNG or PDF drawn by Graphviz."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Iterator

from graphshare.drawing.palette import LIGHT, Palette
from graphshare.drawing.picture import Box, Line, Picture
from graphshare.errors import Fault, GraphshareError
from graphshare.text.format import escape_control

_SHAPES = {"input": "ellipse", "output": "ellipse", "shared": "cylinder", "parameter": "cylinder"}
LIMIT = 120  # seconds
IMAGES = ("png", "pdf")


def format_dot(picture: Picture, palette: Palette, *, title: str, direction: str = "TB") -> str:
    """Return a ``.dot`` file. Boxes and lines have their kind as ``class``, for style sheets of an
    SVG.
    """
    return "\n".join(_format_statements(picture, palette, title, direction)) + "\n"


def _format_statements(
    picture: Picture, palette: Palette, title: str, direction: str
) -> Iterator[str]:
    font = 'fontname="Helvetica,Arial,sans-serif"'
    yield f"digraph {_quote(title)} {{"
    yield (
        f'  graph [rankdir={direction}, bgcolor="{palette.background}", '
        f'fontcolor="{palette.text}", {font}, fontsize=12,'
    )
    # newrank ranks the nodes of all clusters together, so that branches stay side by side.
    yield "         nodesep=0.3, ranksep=0.35, newrank=true, compound=true, pad=0.2]"
    yield f'  node [shape=box, style="filled,rounded", {font}, fontsize=11, margin="0.14,0.07", height=0.3]'
    yield f'  edge [color="{palette.line}", fontcolor="{palette.text}", {font}, fontsize=9, arrowsize=0.7]'
    yield from _format_clusters(picture, palette)
    for line in picture.lines:
        yield f"  {_format_edge(line, palette)}"
    yield "}"


def _format_clusters(picture: Picture, palette: Palette) -> Iterator[str]:
    members = _list_members(picture)
    counter = itertools.count()
    # No recursion: scopes may be nested deeper than Python allows.
    open_clusters = [iter(sorted(members[()], key=lambda member: isinstance(member, int)))]
    while open_clusters:
        pad = "  " * len(open_clusters)
        member = next(open_clusters[-1], None)
        if member is None:
            open_clusters.pop()
            yield from [pad[2:] + "}"] if open_clusters else []
        elif isinstance(member, int):
            yield f"{pad}{_format_node(member, picture.boxes[member], palette)}"
        else:
            is_branch = len(picture.branches) > 1 and len(member) == 1
            label = member[-1] or "original" if is_branch else member[-1]
            yield f"{pad}subgraph cluster_{next(counter)} {{"
            kind = "branch" if is_branch else "scope"
            yield (
                f'{pad}  label={_quote(label)}; class="{kind}"; style="rounded,filled"; '
                f'fillcolor="{palette.cluster_fill}";'
            )
            yield f'{pad}  color="{palette.cluster}"; fontcolor="{palette.text}"; margin=10;'
            open_clusters.append(iter(members[member]))


def _list_members(picture: Picture) -> dict[tuple[str, ...], list[int | tuple[str, ...]]]:
    """Return the boxes (numbers) and clusters (paths) in each cluster, the empty path outside of
    all.
    """
    members: dict[tuple[str, ...], list[int | tuple[str, ...]]] = {(): []}
    for number, box in enumerate(picture.boxes):
        path = picture.find_path(box)
        for depth, cluster in enumerate(itertools.accumulate((part,) for part in path), 1):
            if cluster not in members:
                members[cluster] = []
                members[path[: depth - 1]].append(cluster)
        members[path].append(number)
    return members


def _format_node(number: int, box: Box, palette: Palette) -> str:
    paint = palette.kinds[box.paint]
    label = "\\n".join(_escape(text) for text in (box.title, *box.lines))
    settings = [
        f'label="{label}"',
        f'fillcolor="{paint.fill}"',
        f'color="{paint.stroke}"',
        f'fontcolor="{paint.text}"',
    ]
    classes = dict.fromkeys((box.kind, box.paint))
    settings.append(f'class="{" ".join(classes)}"')
    settings.append(f"tooltip={_quote(box.tip or box.title)}")
    if box.kind in _SHAPES:
        settings += [f"shape={_SHAPES[box.kind]}", 'style="filled"']
        settings += ["labelloc=b"] if _SHAPES[box.kind] == "cylinder" else []  # below the rim
    if box.mark or box.kind == "shared":
        settings.append("penwidth=1.8")
    return f"n{number} [{', '.join(settings)}];"


def _format_edge(line: Line, palette: Palette) -> str:
    settings = [f'class="{line.kind}"']
    if line.labels:
        labels = line.labels if len(line.labels) <= 3 else [*line.labels[:3], "…"]
        # Blanks keep the text off the line, chr(92) is a backslash, and the last \n is cut off.
        settings.append(
            f'label="{"".join(f" {_escape(text)} " + chr(92) + "n" for text in labels)[:-2]}"'
        )
    if line.kind == "shared":
        settings += [f'color="{palette.shared_line}"', "style=dashed", "penwidth=1.4"]
    elif line.kind == "control":
        settings.append("style=dotted")
    return f"n{line.source} -> n{line.target} [{', '.join(settings)}];"


def _escape(text: str) -> str:
    return escape_control(text[:200]).replace("\\", "\\\\").replace('"', '\\"')


def _quote(text: str) -> str:
    return f'"{_escape(text)}"'


class GraphvizError(GraphshareError):
    """Graphviz is not installed, or could not draw the graph."""


def render_image(dot: str, to: str) -> bytes:
    """Draw a graph with Graphviz; ``to`` is ``png`` or ``pdf``.

    Raises:
        GraphvizError: Graphviz is not installed, rejects the graph, or takes longer than ``LIMIT``
            seconds.
    """
    program = shutil.which("dot")
    if program is None:
        hint = (
            "install it (apt install graphviz, brew install graphviz), or draw with `to='svg'`, "
            "`to='html'` or `to='mermaid'`"
        )
        raise GraphvizError(
            Fault(f"{to} needs Graphviz, but its program `dot` is not on the path", hint=hint)
        )
    try:
        result = subprocess.run(
            [program, f"-T{to}"],
            input=dot.encode(),
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        hint = "show less with `depth=1`, or use `to='svg'`"
        raise GraphvizError(Fault(f"Graphviz did not finish within {LIMIT} s", hint=hint)) from None
    except OSError as error:
        raise GraphvizError(
            Fault(f"Graphviz cannot be started: {error.strerror}", where=program)
        ) from error
    if result.returncode:
        messages = result.stderr.decode("utf-8", "replace").strip().splitlines()
        hint = "if the graph is large, show less with `depth=1`"
        raise GraphvizError(
            Fault(
                f"Graphviz refuses the graph: {messages[-1] if messages else result.returncode}",
                hint=hint,
            )
        )
    return result.stdout


MAX_LINES = 500  # Mermaid's default limit

_ENTITIES = {'"': "quot", "<": "lt", ">": "gt", "&": "amp"}
_PILL, _CYLINDER = ("([", "])"), ("[(", ")]")
_FORMS = {
    "input": _PILL,
    "output": _PILL,
    "shared": _CYLINDER,
    "parameter": _CYLINDER,
    "scope": ("[[", "]]"),
}


def format_mermaid(picture: Picture, *, palette: Palette = LIGHT, direction: str = "TB") -> str:
    """Return a Mermaid flowchart for Markdown, readable on light and on dark pages."""
    return "\n".join(_format_flowchart(picture, palette, direction)) + "\n"


def _format_flowchart(picture: Picture, palette: Palette, direction: str) -> Iterator[str]:
    yield f"flowchart {direction}"
    yield from _format_groups(picture)
    for line in picture.lines:
        arrow = {"shared": "-.->", "control": "-.-"}.get(line.kind, "-->")
        label = "<br/>".join(map(_escape_entities, line.labels[:3]))
        arrow += f'|"{label}"|' if label else ""
        yield f"  n{line.source} {arrow} n{line.target}"
    used = {box.paint for box in picture.boxes}
    for kind, paint in palette.kinds.items():
        if kind in used:
            yield f"  classDef {kind} fill:{paint.fill},stroke:{paint.stroke},color:{paint.text}"
    shared = [str(i) for i, line in enumerate(picture.lines) if line.kind == "shared"]
    if shared:
        yield f"  linkStyle {','.join(shared)} stroke:{palette.shared_line}"


def _format_groups(picture: Picture) -> Iterator[str]:
    opened: tuple[str, ...] = ()
    count = 0
    # Mermaid cannot open a group again, so its boxes must be neighbours.
    order = sorted(range(len(picture.boxes)), key=lambda n: picture.find_path(picture.boxes[n]))
    for number in order:
        box = picture.boxes[number]
        path = picture.find_path(box)
        common = 0
        while common < min(len(path), len(opened)) and path[common] == opened[common]:
            common += 1
        for depth in range(len(opened), common, -1):
            yield f"{'  ' * depth}end"
        for depth in range(common, len(path)):
            title = path[depth] or "original"
            yield f'{"  " * (depth + 1)}subgraph s{count}["{_escape_entities(title)}"]'
            count += 1
        opened = path
        yield f"{'  ' * (len(path) + 1)}{_format_mermaid_box(number, box)}"
    for depth in range(len(opened), 0, -1):
        yield f"{'  ' * depth}end"


def _format_mermaid_box(number: int, box: Box) -> str:
    start, end = _FORMS.get(box.kind, ("[", "]"))
    label = "<br/>".join(map(_escape_entities, (box.title, *box.lines)))
    classes = f":::{box.paint}"
    return f'n{number}{start}"{label}"{end}{classes}'


def _escape_entities(text: str) -> str:
    # # comes first, because the entities begin with it.
    escaped = escape_control(text[:200]).replace("#", "#35;")
    escaped = "".join(f"#{_ENTITIES[c]};" if c in _ENTITIES else c for c in escaped)
    # Mermaid takes %%{ for the beginning of a directive, even within quotes.
    return escaped.replace("`", "#96;").replace("%", "#37;")
