"""``graphshare downgrade``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from graphshare.api.downgrade import downgrade
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.output import say_written, write_result

EXAMPLES = {"downgrade": [("for MXNet 0.10", "graphshare downgrade lenet --to 0.10.0 -o old")]}


@click.command("downgrade", cls=Command)
@options.rewriting_symbols
@option(
    "--to", "version", metavar="VERSION", required=True, help="Version of MXNet, from 0.9.5 to 1.8."
)
def command(source: Checkpoint, version: str, output: Mapping[str, Any]) -> None:
    """Write a symbol file for an older MXNet.

    Attributes that came later are left out where they have their defaults. Operators, attributes
    and values that the version lacks are refused, with every node at fault, and so is what it
    computes otherwise; where that depends on the inputs or the device it is a note. What versions
    have was asked of the libraries of 0.9.5, 0.10.0, 0.12.1, 1.2.1, 1.4.1 and 1.6.0; for one
    between them the one before decides.

    Parameters take the form that the version reads: V0 up to 0.10, V1 in 0.11, V2 from 0.12.
    """
    outputs = write_result(downgrade(source, version), output)
    if outputs is not None:
        say_written(outputs)
