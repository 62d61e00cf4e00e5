"""``graphshare upgrade``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from graphshare.api.upgrade import upgrade
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import say
from graphshare.cli.output import say_written, write_result
from graphshare.text.format import format_count

EXAMPLES = {
    "upgrade": [
        ("what MXNet 1.9.1 would write", "graphshare upgrade lenet -o upgraded"),
    ],
}


@click.command("upgrade", cls=Command)
@options.rewriting_symbols
@option(
    "--keep-amp-cast",
    is_flag=True,
    help="Keep amp_cast and amp_multicast, which Symbol.save removes.",
)
def command(source: Checkpoint, keep_amp_cast: bool, output: Mapping[str, Any]) -> None:
    """Write what MXNet 1.9.1 would write after loading the file.

    The result is the same byte for byte, so it has no final newline either. Implied auxiliary
    states become nodes under the names their parameters already have. A file that MXNet refuses is
    refused, with every node at fault.
    """
    result = upgrade(source, keep_amp_cast=keep_amp_cast)
    outputs = write_result(result, output)
    if outputs is not None:
        say(
            f"upgraded {format_count(len(source.graph.nodes), 'node')} to {len(result.graph.nodes)}"
        )
        say_written(outputs)
