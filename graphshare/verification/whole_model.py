"""Proofs of models before and after a change: whole files bit for bit, and folded models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import DisprovedError, Fault, GraphshareError
from graphshare.execute.backends.backend import Computation, open_computation
from graphshare.files.open_source import reopen_source
from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Entry
from graphshare.resources import is_chosen_limit
from graphshare.rewrite.folding.fold_graph import Folding, FoldingProof
from graphshare.text.format import format_count, format_names
from graphshare.verification.comparison import (
    EXACT,
    Tolerance,
    Values,
    compare_runs,
    compare_values,
    tolerate_export,
)
from graphshare.verification.inputs import choose_own
from graphshare.verification.model_comparison import weigh_models
from graphshare.verification.report import explain_blanks, value_stage
from graphshare.verification.runners import ComputationRunner

_ROUNDING = {"float16": 2**-9, "float32": 2**-22, "float64": 2**-51}
"""Two steps of a float at 1: the error of a Sigmoid, even if it is almost 0 everywhere."""
_REPORT_IT = "nothing was written; please report it"
ModelContent = Callable[[], tuple[bytes | Iterable[bytes | memoryview], str]]
"""Returns the bytes of a model and the directory of its external data."""


class BitComparison(NamedTuple):
    """Whether outputs ``were_compared`` (and are equal), with a ``text`` for users."""

    were_compared: bool
    text: str


def compare_bits(
    model: Checkpoint, copy: Checkpoint, where: str, read: ModelContent | None = None
) -> BitComparison:
    """Compare a model's outputs with its copy's at ``where`` on drawn inputs.

    ``read`` may give the copy's bytes.

    Raises:
        DisprovedError: an output has different bits in the copy, or the copy cannot be computed.
        MemoryLimitError: the computation would exceed a chosen limit.
        InputError: a file of the model has changed meanwhile.
    """
    try:
        source = open_computation(model, whole=True)
        drawn = source.draw()
        wanted = source.run(drawn.values).outputs if drawn.outputs is None else drawn.outputs
    except GraphshareError as error:
        return BitComparison(False, f"not computed: {_explain_failure(error, model)}")
    try:
        encode = None if read is None else lambda graph: read()
        part = open_computation(replace(copy, where=model.where), encode=encode, whole=True)
        values = part.run(drawn.values).outputs
    except GraphshareError as error:
        _refuse_changed(model)
        message = f"cannot be computed as its source can: {error.faults[0].message}"
        raise DisprovedError(Fault(message, where=where, hint=_REPORT_IT)) from None
    names = [output_name(head) for head in model.graph.heads]
    other = list_changed(names, values, wanted)
    if not other:
        return BitComparison(True, f"{format_count(len(names), 'output')} equal bit for bit")
    # A model that draws numbers differs within one session; a new session repeats them.
    if list_changed(names, source.run(drawn.values).outputs, wanted):
        return BitComparison(False, "not compared: two runs of the model itself differ")
    _refuse_changed(model)
    raise DisprovedError(
        Fault(
            f"computes different bits from its source: {format_names(other)}",
            where=where,
            hint=_REPORT_IT,
        )
    )


def list_changed(names: Sequence[str], values: Sequence[Any], wanted: Sequence[Any]) -> list[str]:
    """Name the outputs whose bits differ."""
    outputs = zip(names, values, wanted, strict=True)
    return [name for name, value, own in outputs if not compare_values(value, own, EXACT).identical]


def prove_folding(
    folded: Checkpoint,
    report: Folding,
    source: Checkpoint,
    dtypes: Collection[str],
    tolerance: float | None,
) -> Checkpoint:
    """Return a folded model with its proof, or with a note on why there is none.

    Weights prove it for every input; values are compared, too, if the model states input types. New
    weights have ``dtypes``. Raises DisprovedError, and MemoryLimitError for a chosen limit.
    """
    weighed = None
    try:
        weighed = weigh_models(source, folded)
    except GraphshareError as error:
        _explain_failure(error, source)
    regions = () if weighed is None else weighed.regions
    unlike = [f"{region.ends[0][0]}: {region.unlike}" for region in regions if region.unlike]
    if unlike and tolerance is None:
        _refuse_changed(source)
        raise DisprovedError([Fault(text, where=source.where, hint=_REPORT_IT) for text in unlike])
    # A chosen tolerance also allows more than rounding, but not silently.
    notes = [f"more than rounding, which `tolerance` allows: {text}" for text in unlike]
    if weighed is not None and not unlike:
        steps = max((region.steps or 0.0 for region in regions), default=0.0)
        report = replace(report, by_weights=steps)
    folded = replace(folded, report=report, notes=(*folded.notes, *notes))
    if find_format(source.graph).supports(Operation.FOLD_VALUES):
        return _compare_folding(folded, source, dtypes, tolerance)
    if report.by_weights is None:
        note = (
            "not proved by weights, which do not decide all that differs; `gs.compare(FOLDED, "
            "MODEL)` compares values"
        )
        return replace(folded, notes=(*folded.notes, note))
    return folded


def _compare_folding(
    folded: Checkpoint, source: Checkpoint, dtypes: Collection[str], tolerance: float | None
) -> Checkpoint:
    """Add a comparison of values, or a note why there is none.

    Raises as :func:`prove_folding`.
    """
    report = folded.report
    assert isinstance(report, Folding)
    norms = dict.fromkeys(name for one in report.folded for name in one.norms)
    try:
        opened = [_open_with_inner(model, norms) for model in (source, folded)]
        values = _run_both(opened, _tolerate_folding(dtypes, tolerance))
    except GraphshareError as error:
        reason = _explain_failure(error, source)
        return _note_gap(folded, report, f"the models were not computed: {reason}")
    if not values:
        _refuse_changed(source)
        hint = "nothing was written; `tolerance` allows a larger difference"
        details = value_stage([values]).details
        raise DisprovedError([Fault(text, where=source.where, hint=hint) for text in details])
    blanks = explain_blanks([values])
    if blanks:
        return _note_gap(folded, report, blanks[0])
    relative = [
        output.of_largest
        for output in values.outputs
        if output.reference in norms and output.of_largest is not None
    ]
    count = len(source.graph.heads)
    largest = max(output.comparison.max_abs for output in values.outputs[:count])
    proof = FoldingProof(count, largest, len(norms), max(relative, default=None))
    return replace(folded, report=replace(report, proof=proof))


def _note_gap(folded: Checkpoint, report: Folding, reason: str) -> Checkpoint:
    known = "not proved" if report.by_weights is None else "proved by weights alone"
    return replace(folded, notes=(*folded.notes, f"{known}, as {reason}"))


def _run_both(computations: Sequence[Computation], tolerance: Tolerance) -> Values:
    before, after = computations
    drawn = before.draw()
    by_name = {node.name: value for node, value in drawn.values.items()}
    moved = choose_own(after.graph.variables(), by_name)
    names = [(name, name) for name in map(output_name, before.graph.heads)]
    return compare_runs(
        names,
        ComputationRunner(before, drawn.values, drawn.outputs),
        ComputationRunner(after, moved),
        tolerance,
    )


def _tolerate_folding(dtypes: Collection[str], tolerance: float | None) -> Tolerance:
    """Return a folded model's tolerance: its weights are rounded once more."""
    by_dtype = tolerate_export(tolerance).by_dtype
    # A Sigmoid near 0 has an additional error.
    rounding = max(_ROUNDING[dtype] for dtype in dtypes) if tolerance is None else 0.0
    return Tolerance(atol=rounding, of_largest=max(by_dtype[dtype] for dtype in dtypes))


def _refuse_changed(model: Checkpoint) -> None:
    """onnxruntime reads external data itself. Raises InputError if a file has changed."""
    own = model.parameter_file
    if own is None:
        return
    origins = (record.origin.file for record in own.records if record.origin is not None)
    files: dict[str, ParameterFile] = {}
    for file in (own, *origins):
        if file is not None and file.identity:
            files[file.path] = file
    for file in files.values():
        reopen_source(file.path, file.identity, file.held).close()


def _open_with_inner(model: Checkpoint, names: Iterable[str]) -> Computation:
    graph = model.graph
    known = {output_name(head) for head in graph.heads}
    nodes = {node.name: node for node in graph.nodes if node.op}
    inner = tuple(Entry(nodes[name]) for name in names if name not in known)
    return open_computation(replace(model, graph=replace(graph, heads=graph.heads + inner)))


def _explain_failure(error: GraphshareError, model: Checkpoint) -> str:
    """Raises ``error`` for a chosen limit, and InputError for a changed file."""
    if is_chosen_limit(error):
        raise error
    _refuse_changed(model)
    return error.faults[0].message
