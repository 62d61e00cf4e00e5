"""``graphshare draw``."""

from __future__ import annotations

import os

import click

from graphshare.checkpoint.load import load_checkpoint, refusals_of
from graphshare.checkpoint.map_file import read_map
from graphshare.checkpoint.save import write_stdout
from graphshare.cli import options
from graphshare.cli.console import say
from graphshare.drawing.draw import draw as draw_graph
from graphshare.errors import Fault, UsageError
from graphshare.execute.feeds import parse_shapes
from graphshare.formats.atomic import staged_outputs

_LANGUAGES = {".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid", ".svg": "svg"}


@click.command
@options.GRAPH
@options.epoch
@options.params
@click.option("-o", "--out", metavar="OUT", help="A path, or - for standard output [-].")
@click.option("--to", type=click.Choice(["dot", "mermaid", "svg"]), help="The language [by OUT's suffix, else dot].")
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="How many levels of scopes to open [what fits].")
@click.option("--prefix", "prefixes", metavar="P", multiple=True, help="Prefix of a branch; found by itself where it can be.")
@options.shapes
@click.option("--highlight", metavar="FILE", help="Mark what this map file renamed.")
@click.option("--parameters", "all_parameters", is_flag=True, help="Draw parameters that are not shared, too.")
@click.option("--separator", metavar="TEXT", help="What parts scopes in names [/, else _ where that makes sense].")
@click.option("--direction", type=click.Choice(["TB", "LR", "BT", "RL"]), default="TB", help="Where the data flow [TB].")
@click.option("--theme", type=click.Choice(["auto", "light", "dark"]), default="auto", help="Colours; auto suits both in svg.")
def draw(
    graph: str,
    epoch: int | None,
    params: str | None,
    out: str | None,
    to: str | None,
    depth: int | None,
    prefixes: tuple[str, ...],
    shapes: tuple[str, ...],
    highlight: str | None,
    all_parameters: bool,
    separator: str | None,
    direction: str,
    theme: str,
) -> None:
    """Draw a graph in Graphviz's language, in Mermaid or as SVG.

    Operators of one scope are one box unless --depth opens it. Branches stand side by side; parameters that several boxes
    share are drawn once, in a colour of their own. With --shape lines bear shapes and boxes say how many weights they hold.
    """
    suffix = os.path.splitext(out or "")[1].lower()
    if to is None and out not in (None, "-") and suffix not in _LANGUAGES:
        hint = f"end it in {', '.join(_LANGUAGES)}, or give --to"
        raise UsageError(Fault(f"the suffix {suffix!r} names no language for pictures", where=out or "", hint=hint))
    source = load_checkpoint(graph, epoch=epoch, params=params)
    with refusals_of(source):
        drawn = draw_graph(
            source.graph,
            to=to or _LANGUAGES.get(suffix, "dot"),
            depth=depth,
            params=source.params,
            shapes=parse_shapes(shapes),
            prefixes=prefixes,
            highlight=read_map(highlight) if highlight else None,
            highlight_where=highlight or "",
            all_parameters=all_parameters,
            separator=separator,
            theme=theme,
            direction=direction,
            title=os.path.basename(source.stem or source.where),
        )
    for note in drawn.notes:
        say(note)
    text = drawn.text.encode("utf-8", "backslashreplace")
    if out is None or out == "-":
        write_stdout([text])
        return
    with staged_outputs() as stage:
        stage.open(out).write(text)
        stage.commit()
    say(f"wrote {out}: {len(drawn.picture.boxes)} boxes for {len(source.graph.nodes)} nodes")
