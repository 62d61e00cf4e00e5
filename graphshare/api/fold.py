"""``fold``: fold BatchNorm into the weights of the layer before it."""

from __future__ import annotations

from graphshare.arguments import Natural, NotNegative, Seconds
from graphshare.checkpoint.load import Model, as_checkpoint
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import Fault, RefusedError, UsageError, locate_refusals
from graphshare.formats.model_format import Operation, find_format, require
from graphshare.resources import resource_limits
from graphshare.rewrite.folding.fold_graph import fold_graph


def fold(
    model: Model,
    *,
    verify: bool = True,
    tolerance: NotNegative | None = None,
    max_memory: Natural | str | None = None,
    time_limit: Seconds | None = None,
) -> Checkpoint:
    """Fold each BatchNorm into the weight and bias of the layer before it.

    Layers are Convolution, FullyConnected and Deconvolution, in ONNX Conv, Gemm and ConvTranspose.
    The result computes the same at inference, up to rounding, with fewer nodes and parameters. The
    layer gets the outputs of its BatchNorm, so that outputs keep their names. Layers that share a
    weight are folded together if they come out equal. ``report`` of the result lists the folded
    BatchNorms, and the reasons why others were left. Folded arrays are computed in float64 and held
    in memory; all others stay in their file.

    With ``verify`` the weights of both models are compared to show that they compute the same for
    every input, up to rounding: ``by_weights`` of the report is their largest difference in steps
    of their dtype, or None if weights do not decide. An ONNX model states the types of its inputs,
    so onnxruntime also computes both models on drawn inputs. Every output and every folded layer
    must match up to ``tolerance`` of its largest number (by default 1e-4, for float16 1e-2, for
    float64 1e-9, or two roundings at 1). The report's ``proof`` has the largest difference; if
    nothing can be computed, a note says why.

    ``max_memory`` and ``time_limit`` are as in :func:`run`; they apply to folded weights of any
    format and to the proof.

    Raises:
        UsageError: the model has no parameters.
        RefusedError: ``tolerance`` is given for an MXNet model, although it states no sizes to
            compute it at; a proof needs more than ``max_memory``; folding a weight needs more than
            that or than the available memory; ``time_limit`` has passed.
        InputError: the parameter file cannot be read.
        DisprovedError: weights differ, or onnxruntime computes different outputs.
    """
    source = as_checkpoint(model)
    require(source.graph, Operation.FOLD, where=source.where)
    chosen = ["`tolerance`"] if tolerance is not None else []
    if lacks := find_format(source.graph).find_lacks(
        Operation.FOLD_VALUES, chosen, where=source.where
    ):
        raise RefusedError(lacks)
    if source.parameter_file is None:
        hint = "name the parameter file with `params`"
        raise UsageError(
            Fault("there are no parameters to fold into", where=source.where, hint=hint)
        )
    with resource_limits(max_memory, time_limit):
        with locate_refusals(source):
            check_belongs(source.parameter_file, source.graph)
            rewrite = fold_graph(source)
        report, arrays = rewrite.report, rewrite.arrays
        notes = notes_on(source.parameter_file, source.graph)
        if not report.count:
            notes.append("no BatchNorm was folded")
        folded = follow_rewrite(source, rewrite, report=report, notes=notes).with_params(arrays)
        if not (verify and report.count):
            return folded
        # Start-up: --help must not import numpy
        from graphshare.verification.whole_model import prove_folding

        return prove_folding(
            folded, report, source, {str(array.dtype) for array in arrays.values()}, tolerance
        )
