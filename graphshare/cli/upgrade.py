"""``graphshare upgrade``."""

from __future__ import annotations

from typing import Any

import click

from graphshare.checkpoint.load import load_checkpoint, refusals_of
from graphshare.checkpoint.parameter_plan import check_belongs, notes_on
from graphshare.cli import options
from graphshare.cli.console import say
from graphshare.cli.emit import deliver
from graphshare.cli.summary import say_written
from graphshare.rewrite.upgrade_plan import upgraded


@click.command
@options.rewriting
@click.option("--keep-amp-cast", is_flag=True, help="Keep amp_cast and amp_multicast, which Symbol.save removes.")
def upgrade(graph: str, epoch: int | None, params: str | None, keep_amp_cast: bool, **delivery: Any) -> None:
    """Write what MXNet 1.9.1 would write after loading the file.

    Byte for byte, so without a final newline too. Implied auxiliary states become nodes under the names their parameters
    already have. A file that MXNet refuses is refused, with every node at fault.
    """
    source = load_checkpoint(graph, epoch=epoch, params=params)
    with refusals_of(source):
        check_belongs(source.params, source.graph)
    rewrite = upgraded(source, keep_amp_cast=keep_amp_cast)
    done = options.delivery(delivery)
    outputs = deliver(rewrite, source, done, notes=notes_on(source.params, rewrite.graph))
    if not done.dry_run:
        say(f"upgraded {len(source.graph.nodes)} nodes to {len(rewrite.graph.nodes)}")
        say_written(outputs)
