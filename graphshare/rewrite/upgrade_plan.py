"""``upgrade``: the file as MXNet 1.9.1 would write it."""

from __future__ import annotations

from graphshare.analysis.implied import implied_variables
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import RefusedError
from graphshare.ir.graph import Graph, Rewrite
from graphshare.rewrite.upgrade import upgrade


def upgraded(source: Checkpoint, *, keep_amp_cast: bool = False) -> Rewrite:
    """The upgrade of a loaded graph.

    Raises:
        RefusedError: MXNet would refuse the file, or an operator is not known well enough; every such node is listed.
    """
    try:
        return upgrade(source.graph, keep_amp_cast=keep_amp_cast)
    except RefusedError as error:
        raise error.with_location(source.where) from None


def with_implied(source: Checkpoint) -> Graph:
    """The graph with the variables that its file implies as nodes: upgraded in memory where there are any, else as it is.

    Raises:
        RefusedError: the file implies variables and cannot be upgraded.
    """
    return upgraded(source, keep_amp_cast=True).graph if any(implied_variables(source.graph)) else source.graph
