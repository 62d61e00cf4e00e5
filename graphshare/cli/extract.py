"""``graphshare extract``."""

from __future__ import annotations

from typing import Any

import click

from graphshare.analysis.name_lists import NameLists
from graphshare.checkpoint.load import load_checkpoint, refusals_of
from graphshare.checkpoint.parameter_plan import check_belongs, notes_on
from graphshare.cli import options
from graphshare.cli.console import say
from graphshare.cli.emit import deliver
from graphshare.cli.summary import format_name_list, say_written
from graphshare.rewrite.extract_plan import extract as extract_graph


@click.command
@options.rewriting
@click.option("--target", "targets", metavar="NAME", multiple=True, required=True, help="An output that is wanted; repeatable.")
@click.option("--cut", "cuts", metavar="NAME", multiple=True, help="Stop at this output: it becomes an input of that name.")
def extract(
    graph: str, epoch: int | None, params: str | None, targets: tuple[str, ...], cuts: tuple[str, ...], **delivery: Any
) -> None:
    """Cut out the minimal sub-graph for some outputs.

    NAME is an output (conv1_output) or a node (conv1: all its outputs). Parameters that are no longer needed are left out of
    the parameter file.
    """
    source = load_checkpoint(graph, epoch=epoch, params=params)
    with refusals_of(source):
        check_belongs(source.params, source.graph)
        rewrite = extract_graph(source.graph, targets, cuts=cuts)
    done = options.delivery(delivery)
    notes = notes_on(source.params, rewrite.graph, unused=False)
    outputs = deliver(rewrite, source, done, drop_unused=True, notes=notes)
    if not done.dry_run:
        lists = NameLists(rewrite.graph)
        say(
            f"kept {len(rewrite.graph.nodes)} of {len(source.graph.nodes)} nodes; arguments {format_name_list(lists.arguments)}"
        )
        say_written(outputs)
