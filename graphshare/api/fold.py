"""``fold``: BatchNorm worked into the weights of the layer before it."""

from __future__ import annotations

from graphshare.api.models import Model, as_checkpoint
from graphshare.checkpoint.chain import follow_rewrite
from graphshare.checkpoint.load import locate_refusals
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameter_plan import check_belongs, notes_on
from graphshare.errors import Fault, UsageError
from graphshare.formats.model_format import Capability, require
from graphshare.rewrite.fold.fold import fold as fold_layers


def fold(model: Model) -> Checkpoint:
    """Work each BatchNorm into the weight and bias of the Convolution, FullyConnected or Deconvolution before it.

    The result computes the same at inference, up to rounding, with fewer nodes and parameters. The layer gets the name of its
    BatchNorm, so that outputs keep their names. Layers that share a weight are folded together if they come out equal.
    ``report`` of the result says what was folded, and why the other BatchNorms were left. Folded arrays are computed in
    float64 and are in memory; all others stay in their file.

    Raises:
        UsageError: the model has no parameters.
        InputError: the parameter file cannot be read.
    """
    source = as_checkpoint(model)
    require(source.graph, Capability.FOLD, where=source.where)
    if source.parameter_file is None:
        hint = "name the parameter file with `params`"
        raise UsageError(Fault("there are no parameters to fold into", where=source.where, hint=hint))
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        rewrite, arrays, report = fold_layers(source)
    notes = notes_on(source.parameter_file, source.graph)
    if not report.count:
        notes.append("no BatchNorm was folded")
    return follow_rewrite(source, rewrite, report=report, notes=notes).with_params(arrays)
