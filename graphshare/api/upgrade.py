"""``upgrade``: a graph of any MXNet version in the form of 1.9.1."""

from __future__ import annotations

from graphshare.checkpoint.load import Model, as_checkpoint
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import locate_refusals
from graphshare.formats.model_format import Operation, require
from graphshare.rewrite.upgrade_graph import upgrade_graph


def upgrade(model: Model, *, keep_amp_cast: bool = False) -> Checkpoint:
    """Convert the graph to the form that MXNet 1.9.1 writes after loading its file.

    Implied auxiliary states become nodes under the names that their parameters already have. Symbol.save removes
    ``amp_cast`` and ``amp_multicast``; ``keep_amp_cast`` keeps them.

    Raises:
        RefusedError: MXNet would reject the file, or an operator is not known well enough; every such node is listed.
    """
    source = as_checkpoint(model)
    require(source.graph, Operation.UPGRADE, where=source.where)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        rewrite = upgrade_graph(source.graph, keep_amp_cast=keep_amp_cast)
    return follow_rewrite(source, rewrite, notes=notes_on(source.parameter_file, rewrite.graph))
