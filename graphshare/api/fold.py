"""``fold``: BatchNorm worked into the weights of the layer before it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from graphshare.analysis.name_lists import output_name
from graphshare.arguments import Natural, NotNegative, Seconds
from graphshare.checkpoint.arguments import Model, as_checkpoint
from graphshare.checkpoint.load import locate_refusals
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import DisprovedError, Fault, GraphshareError, MemoryLimitError, RefusedError, UsageError
from graphshare.formats.model_format import Capability, find_format
from graphshare.ir.graph import Entry, Graph
from graphshare.resources import chosen_memory, resource_limits
from graphshare.rewrite.fold.fold import Folding, FoldingProof
from graphshare.rewrite.fold.fold import fold as fold_layers

_ROUNDING = {"float16": 2**-9, "float32": 2**-22, "float64": 2**-51}
"""Two steps of a float at 1: the error of a Sigmoid, also where it is almost 0 everywhere."""


def fold(
    model: Model,
    *,
    verify: bool = True,
    tolerance: NotNegative | None = None,
    max_memory: Natural | str | None = None,
    time_limit: Seconds | None = None,
) -> Checkpoint:
    """Work each BatchNorm into the weight and bias of the layer before it.

    Layers are Convolution, FullyConnected and Deconvolution, in ONNX Conv, Gemm and ConvTranspose. The result computes the same
    at inference, up to rounding, with fewer nodes and parameters. The layer gets the outputs of its BatchNorm, so that outputs
    keep their names. Layers that share a weight are folded together if they come out equal. ``report`` of the result says what
    was folded, and why the other BatchNorms were left. Folded arrays are computed in float64 and are in memory; all others stay
    in their file.

    An ONNX model states the types of its inputs: with ``verify`` both models are computed in onnxruntime on drawn inputs. Every
    output and every folded layer must match up to ``tolerance`` of its largest number (by default 1e-4, of float16 1e-2, of
    float64 1e-9, or two roundings at 1). The report's ``proof`` has the largest difference; where nothing can be computed, a
    note says why.

    ``max_memory`` and ``time_limit`` are those of :func:`run`; they hold for folded weights of any format and for the proof.

    Raises:
        UsageError: the model has no parameters.
        RefusedError: ``verify=False`` or ``tolerance`` for an MXNet model, which states no sizes to prove it at; a proof would
            pass ``max_memory``, or folding a weight that or what is available; ``time_limit`` has passed.
        InputError: the parameter file cannot be read.
        DisprovedError: onnxruntime computes something else.
    """
    source = as_checkpoint(model)
    options = {"`verify=False`": not verify, "`tolerance`": tolerance is not None}
    chosen = [name for name, is_chosen in options.items() if is_chosen]
    format_ = find_format(source.graph)
    if lacks := format_.find_lacks(Capability.FOLD_PROOF, chosen, where=source.where):
        raise RefusedError(lacks)
    if source.parameter_file is None:
        hint = "name the parameter file with `params`"
        raise UsageError(Fault("there are no parameters to fold into", where=source.where, hint=hint))
    with resource_limits(max_memory, time_limit):
        with locate_refusals(source):
            check_belongs(source.parameter_file, source.graph)
            rewrite = fold_layers(source)
        report, arrays = rewrite.report, rewrite.arrays
        notes = notes_on(source.parameter_file, source.graph)
        if not report.count:
            notes.append("no BatchNorm was folded")
        folded = follow_rewrite(source, rewrite, report=report, notes=notes).with_params(arrays)
        if not (verify and report.count and format_.supports(Capability.FOLD_PROOF)):
            return folded
        return _prove(folded, report, source, {str(array.dtype) for array in arrays.values()}, tolerance)


def _prove(
    folded: Checkpoint, report: Folding, source: Checkpoint, dtypes: Collection[str], tolerance: float | None
) -> Checkpoint:
    """Return a folded model, whose new weights have ``dtypes``, with its proof or a note why there is none.

    Raises DisprovedError, and MemoryLimitError where a limit is chosen and the proof would pass it.
    """
    from graphshare.execute.engines.session_model import SessionPart
    from graphshare.execute.prepare.declared_inputs import draw_values  # start-up: --help must not import numpy
    from graphshare.verification.compare import Tolerance, compare_runs, tolerate_export
    from graphshare.verification.report import value_stage
    from graphshare.verification.runners import SessionRunner

    by_dtype = tolerate_export(tolerance).by_dtype
    rounding = max(_ROUNDING[dtype] for dtype in dtypes) if tolerance is None else 0.0
    limit = Tolerance(atol=rounding, of_largest=max(by_dtype[dtype] for dtype in dtypes))
    norms = {name: None for one in report.folded for name in one.norms}
    heads = [[*one.graph.heads, *_find_inner(one.graph, norms)] for one in (source, folded)]
    count = len(source.graph.heads)
    try:
        before, after = (
            SessionPart(one.graph, entries, one.parameter_file, one.where)
            for one, entries in zip((source, folded), heads, strict=True)
        )
        drawn = draw_values(before, {}, {}, seed=0)
        runners = SessionRunner(before, drawn.values, drawn.outputs), SessionRunner(after, drawn.values)
        values = compare_runs([(output_name(head), output_name(head)) for head in heads[0]], *runners, limit)
    except GraphshareError as error:
        if isinstance(error, MemoryLimitError) and chosen_memory() is not None:
            raise
        reason = error.faults[0].message
        return replace(folded, notes=(*folded.notes, f"not proved, as onnxruntime did not compute the models: {reason}"))
    if not values:
        hint = "nothing was written; `tolerance` allows a larger difference"
        raise DisprovedError([Fault(text, where=source.where, hint=hint) for text in value_stage([values]).details])
    relative = [output.of_largest for output in values.outputs if output.reference in norms and output.of_largest is not None]
    largest = max(output.comparison.max_abs for output in values.outputs[:count])
    return replace(folded, report=replace(report, proof=FoldingProof(count, largest, len(norms), max(relative, default=None))))


def _find_inner(graph: Graph, names: Mapping[str, object]) -> list[Entry]:
    """Return the outputs of these names that are not heads of a graph, in the order of the names."""
    heads = {output_name(head) for head in graph.heads}
    nodes = {node.name: node for node in graph.nodes if node.op}
    return [Entry(nodes[name]) for name in names if name not in heads]
