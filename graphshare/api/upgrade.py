"""``upgrade`` and ``format``: the same graph as MXNet 1.9.1 writes it, or in another layout."""

from __future__ import annotations

from graphshare.checkpoint.load import Model, as_checkpoint
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import locate_refusals
from graphshare.formats.model_format import Capability, require
from graphshare.formats.mxnet.relayout import relayout
from graphshare.ir.graph import Branch, Kept, Rewrite
from graphshare.rewrite.upgrade import upgrade as upgrade_graph


def upgrade(model: Model, *, keep_amp_cast: bool = False) -> Checkpoint:
    """Make the graph what MXNet 1.9.1 would write after loading its file.

    Implied auxiliary states become nodes under the names that their parameters already have. ``amp_cast`` and
    ``amp_multicast``, which Symbol.save removes, stay with ``keep_amp_cast``.

    Raises:
        RefusedError: MXNet would refuse the file, or an operator is not known well enough; every such node is listed.
    """
    source = as_checkpoint(model)
    require(source.graph, Capability.UPGRADE, where=source.where)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        rewrite = upgrade_graph(source.graph, keep_amp_cast=keep_amp_cast)
    return follow_rewrite(source, rewrite, notes=notes_on(source.parameter_file, rewrite.graph))


def format(model: Model, layout: str | None = None) -> Checkpoint:
    """Give the graph's file another ``layout``: ``mxnet``, ``compact`` or ``indent:N``; None writes its own layout anew.

    Raises:
        UsageError: there is no such layout.
        RefusedError: the format of the model has no layouts.
    """
    source = as_checkpoint(model)
    require(source.graph, Capability.LAYOUT, where=source.where)
    graph = relayout(source.graph, layout)
    return follow_rewrite(source, Rewrite(graph, (Branch("", source.graph, Kept(source.graph)),)))
