"""Proofs of ONNX models before and after a change in onnxruntime: of whole files bit for bit, and of folded ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import DisprovedError, Fault, GraphshareError
from graphshare.execute.engines.confined_session import ConfinedSession
from graphshare.execute.engines.session_model import SessionPart
from graphshare.execute.prepare.declared_inputs import draw_values
from graphshare.files.open_source import reopen_source
from graphshare.formats.onnx.staging import encode_for_session
from graphshare.ir.graph import Entry, Graph
from graphshare.resources import is_chosen_limit
from graphshare.rewrite.fold.fold import Folding, FoldingProof
from graphshare.text.format import format_count, format_names
from graphshare.verification.compare import EXACT, Tolerance, compare_runs, compare_values, tolerate_export
from graphshare.verification.report import value_stage
from graphshare.verification.runners import SessionRunner

_ROUNDING = {"float16": 2**-9, "float32": 2**-22, "float64": 2**-51}
"""Two steps of a float at 1: the error of a Sigmoid, also where it is almost 0 everywhere."""
ModelContent = Callable[[], tuple[bytes | Iterable[bytes | memoryview], str]]
"""Returns the bytes of a model and the directory of its external data."""


class WholeModel(SessionPart):
    """A whole model in a session of onnxruntime, as ``read`` gives its bytes: no node is left out, and none is moved."""

    def __init__(self, model: Checkpoint, read: ModelContent) -> None:
        self.graph, self.where, self.parameters, self._read = model.graph, model.where, model.parameter_file, read
        self.session = self.open(model.graph.heads)

    def open(self, heads: Sequence[Entry]) -> ConfinedSession:
        """Return a session of the model; its outputs are all there are."""
        with self.locate():
            return ConfinedSession(*self._read(), merge_equal=False, awake=False)


def compare_bits(model: Checkpoint, read: ModelContent, where: str) -> str:
    """Compare the outputs of a model with those of its copy at ``where``, whose bytes ``read`` gives, on drawn inputs.

    Returns what was compared, or why nothing could be, in words.

    Raises:
        DisprovedError: an output has other bits in the copy, or the copy cannot be computed.
        MemoryLimitError: a limit is chosen, and the computation would pass it.
        InputError: a file of the model is not what it was, from which nothing follows.
    """
    try:
        source = WholeModel(model, lambda: encode_for_session(model.graph, model.parameter_file))
        drawn = draw_values(source, {}, {}, seed=0)
        wanted = source.run(drawn.values) if drawn.outputs is None else drawn.outputs
    except GraphshareError as error:
        if is_chosen_limit(error):
            raise
        _refuse_changed(model)
        return f"not computed: {error.faults[0].message}"
    hint = "nothing was written; please report it"
    try:
        values = WholeModel(model, read).run(drawn.values)
    except GraphshareError as error:
        _refuse_changed(model)
        message = f"cannot be computed as its source can: {error.faults[0].message}"
        raise DisprovedError(Fault(message, where=where, hint=hint)) from None
    names = [output_name(head) for head in model.graph.heads]
    other = [name for name, a, b in zip(names, values, wanted, strict=True) if not compare_values(a, b, EXACT).identical]
    if not other:
        return f"{format_count(len(names), 'output')} equal bit for bit"
    # A model that draws numbers differs from itself, though only within one session: a new one draws the same numbers again.
    again = source.run(drawn.values)
    if any(not compare_values(a, b, EXACT).identical for a, b in zip(again, wanted, strict=True)):
        return "not compared: two runs of the model itself differ"
    _refuse_changed(model)
    raise DisprovedError(Fault(f"computes different bits from its source: {format_names(other)}", where=where, hint=hint))


def prove_folding(
    folded: Checkpoint, report: Folding, source: Checkpoint, dtypes: Collection[str], tolerance: float | None
) -> Checkpoint:
    """Return a folded model, whose new weights have ``dtypes``, with its proof or a note why there is none.

    Raises DisprovedError, and MemoryLimitError where a limit is chosen and the proof would pass it.
    """
    by_dtype = tolerate_export(tolerance).by_dtype
    rounding = max(_ROUNDING[dtype] for dtype in dtypes) if tolerance is None else 0.0
    # Folding rounds each weight once more, so nothing is bit for bit; a Sigmoid near 0 has an error of its own.
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
        if is_chosen_limit(error):
            raise
        _refuse_changed(source)
        reason = error.faults[0].message
        return replace(folded, notes=(*folded.notes, f"not proved, as onnxruntime did not compute the models: {reason}"))
    if not values:
        _refuse_changed(source)
        hint = "nothing was written; `tolerance` allows a larger difference"
        raise DisprovedError([Fault(text, where=source.where, hint=hint) for text in value_stage([values]).details])
    relative = [output.of_largest for output in values.outputs if output.reference in norms and output.of_largest is not None]
    largest = max(output.comparison.max_abs for output in values.outputs[:count])
    return replace(folded, report=replace(report, proof=FoldingProof(count, largest, len(norms), max(relative, default=None))))


def _refuse_changed(model: Checkpoint) -> None:
    """Raise InputError where a file of a model is not what it was: onnxruntime reads external data itself."""
    file = model.parameter_file
    files = [] if file is None else [file, *(record.origin.file for record in file.records if record.origin is not None)]
    for each in {each.path: each for each in files if each is not None and each.identity}.values():
        reopen_source(each.path, each.identity, each.held).close()


def _find_inner(graph: Graph, names: Mapping[str, object]) -> list[Entry]:
    """Return the outputs of these names that are not heads of a graph, in the order of the names."""
    heads = {output_name(head) for head in graph.heads}
    nodes = {node.name: node for node in graph.nodes if node.op}
    return [Entry(nodes[name]) for name in names if name not in heads]
