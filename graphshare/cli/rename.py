"""``graphshare rename``."""

from __future__ import annotations

from typing import Any

import click

from graphshare.cli import options
from graphshare.cli.console import say
from graphshare.cli.emit import deliver
from graphshare.cli.summary import say_written
from graphshare.errors import Fault, InputError, UsageError
from graphshare.workflows.checkpoint import load_checkpoint, refusals_of
from graphshare.workflows.mapfile import names_from_map
from graphshare.workflows.parameters import check_belongs, held_names, notes_on
from graphshare.workflows.rename import Only
from graphshare.workflows.rename import rename as rename_graph


@click.command
@options.rewriting
@click.option("--prefix", metavar="P", default="", help="Put P before every name.")
@click.option("--strip-prefix", metavar="P", default="", help="Take P away where a name begins with it.")
@click.option("--map", "map_file", metavar="FILE", help="New names: a map file, or a JSON object of old names and new ones.")
@click.option("--only", type=click.Choice([kind.value for kind in Only]), multiple=True, help="Limit it to these; repeatable.")
def rename(
    graph: str,
    epoch: int | None,
    params: str | None,
    prefix: str,
    strip_prefix: str,
    map_file: str | None,
    only: tuple[str, ...],
    **delivery: Any,
) -> None:
    """Give nodes other names, parameters along.

    Names inside sub-graphs stay as they are: they are bound by position. A name that would meet another is refused.
    """
    if bool(map_file) == bool(prefix or strip_prefix):
        raise UsageError(Fault("nothing says how to rename" if not map_file else "a map leaves no room for prefixes",
                               hint="give --prefix and --strip-prefix, or --map FILE"))  # fmt: skip
    source = load_checkpoint(graph, epoch=epoch, params=params)
    names = names_from_map(_read(map_file), source.graph, where=map_file) if map_file else None
    with refusals_of(source):
        check_belongs(source.params, source.graph)
        rewrite = rename_graph(
            source.graph,
            prefix=prefix,
            strip_prefix=strip_prefix,
            names=names,
            only=[Only(kind) for kind in only],
            held=held_names(source.params),
        )
    done = options.delivery(delivery)
    notes = notes_on(source.params, source.graph)
    variables = any(image.name != node.name for node, image in rewrite.branches[0].images.items() if node.is_variable)
    outputs = deliver(rewrite, source, done, needs_params_out=variables or bool(rewrite.renames), notes=notes)
    if not done.dry_run:
        changed = sum(image.name != node.name for node, image in rewrite.branches[0].images.items())
        say(f"renamed {changed} of {len(source.graph.nodes)} nodes")
        say_written(outputs)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", where=path)) from error
