"""``graphshare draw``."""

from __future__ import annotations

import os
from typing import Any, get_args

import click

from graphshare.api.draw import draw
from graphshare.checkpoint.load import load
from graphshare.checkpoint.save import input_files, place_result, write_stdout, write_text
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import is_terminal, say
from graphshare.cli.output import list_inputs
from graphshare.drawing.drawing import Direction, Language, Theme
from graphshare.errors import Fault, UsageError
from graphshare.files.paths import base_name, is_directory
from graphshare.formats.model_names import find_stem_name
from graphshare.text.format import format_count
from graphshare.text.markup import quote_shell, write_path

_LANGUAGES: dict[str, Language] = {
    ".html": "html",
    ".htm": "html",
    ".svg": "svg",
    ".dot": "dot",
    ".gv": "dot",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".png": "png",
    ".pdf": "pdf",
}

EXAMPLES = {
    "draw": [
        (
            "a page: search, zoom, fold, click",
            "graphshare draw siam --shape data=1,1,28,28 -o siam.html",
        ),
        ("SVG", "graphshare draw siam --shape data=1,1,28,28 -o siam.svg"),
        ("for a Markdown page", "graphshare draw siam --to mermaid"),
    ],
}


@click.command("draw", cls=Command)
@options.GRAPH
@options.epoch
@options.params
@option("-o", "--out", metavar="OUT", help="A path, a directory, or - for stdout [-].")
@option(
    "--to",
    type=click.Choice(get_args(Language)),
    help="Format of the picture [by OUT's suffix, else dot].",
)
@option(
    "--depth",
    type=click.IntRange(min=0),
    metavar="N",
    help="Open this many levels of scopes [as many as fit].",
)
@options.branch_prefixes
@options.shapes
@option("--highlight", metavar="FILE", help="Mark the nodes that this map file renamed.")
@option(
    "--parameters", "all_parameters", is_flag=True, help="Also draw parameters that are not shared."
)
@option("--separator", metavar="S", help="Separator of scopes in names [/, or _ if that fits].")
@option(
    "--direction",
    type=click.Choice(get_args(Direction)),
    default="TB",
    help="Direction in which the data flows [TB].",
)
@option(
    "--theme",
    type=click.Choice(get_args(Theme)),
    default="auto",
    help="Colours; auto fits both light and dark pages [auto].",
)
@options.max_memory
@options.time_limit
def command(
    graph: str,
    epoch: int | None,
    params: str | None,
    out: str | None,
    to: Any,
    highlight: str | None,
    **settings: Any,
) -> None:
    """Draw a graph as a page, SVG, Graphviz's language or Mermaid.

    Operators of one scope are one box unless --depth opens it. Branches stand side by side;
    parameters that several boxes share are drawn once, in a colour of their own. Operators have the
    colour of their kind, such as activation, unless something is marked. Where shapes are known,
    from --shape, the graph or its parameters, the drawing shows them, and every box with parameters
    shows how many weights they have.

    Small constants of an ONNX model are drawn inside the boxes that use them. The bodies of If,
    Loop and Scan, and functions that a model calls, are scopes around their operators.

    html is one file that needs nothing else: search by name, fold scopes, click a node for its attributes, shapes and
    the statistics of its parameters, with a histogram. png and pdf need Graphviz. `graphshare diff` and
    `graphshare compare` draw two models in one page with --format html.
    """
    language = to or _choose_language(out, graph)
    model = load(graph, epoch=epoch, params=params)
    # A picture in a directory gets the first suffix of its format.
    out = place_result(
        out or "-", model, next(ending for ending, name in _LANGUAGES.items() if name == language)
    )
    drawn = draw(model, to=language, highlight=highlight, **settings)
    for note in drawn.notes:
        say(note)
    if out == "-":
        write_stdout([drawn.data])
        return
    write_text(
        out,
        drawn.data,
        content="picture",
        inputs=[*input_files(model), *list_inputs("map", highlight)],
    )
    parts = model.graph.source.describe_parts(model.graph.nodes)
    say(f"wrote {out}: {format_count(len(drawn.picture.boxes), 'box')} for {parts}")


def _choose_language(out: str | None, graph: str) -> Language:
    """Raises UsageError for suffixes of no language, and for a terminal."""
    if out is None and is_terminal():
        words = ("draw", write_path(graph), "-o", write_path(f"{find_stem_name(graph)}.html"))
        hint = f"a page that a browser shows: `graphshare {quote_shell(*words)}`"
        raise UsageError(
            Fault(
                "the picture would go to the terminal as text", hint=f"{hint}; --to dot prints it"
            )
        )
    suffix = os.path.splitext(base_name(out or ""))[1].lower()
    if suffix in _LANGUAGES:
        return _LANGUAGES[suffix]
    if out is not None and out != "-" and not is_directory(out):
        hint = f"end it in {', '.join(_LANGUAGES)}, or give --to"
        raise UsageError(
            Fault(f"the suffix {suffix!r} is not that of a picture format", where=out, hint=hint)
        )
    return "dot"
