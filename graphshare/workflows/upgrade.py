"""``upgrade``: the file as MXNet 1.9.1 would write it."""

from __future__ import annotations

from graphshare.errors import RefusedError
from graphshare.ir.graph import Rewrite
from graphshare.transforms.upgrade import upgrade
from graphshare.workflows.checkpoint import Checkpoint


def upgraded(source: Checkpoint, *, keep_amp_cast: bool = False) -> Rewrite:
    """The upgrade of a loaded graph.

    Raises:
        RefusedError: MXNet would refuse the file, or an operator is not known well enough; every such node is listed.
    """
    try:
        return upgrade(source.graph, keep_amp_cast=keep_amp_cast)
    except RefusedError as error:
        raise error.located(source.where) from None
