"""ONNX models as their files have them, node by node and byte by byte, compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import DisprovedError, Fault, GraphshareError, MemoryLimitError
from graphshare.execute.engines.confined_session import ConfinedSession
from graphshare.execute.engines.session_model import SessionPart
from graphshare.execute.prepare.declared_inputs import draw_values
from graphshare.formats.onnx.staging import encode_for_session
from graphshare.ir.graph import Entry
from graphshare.resources import chosen_memory
from graphshare.text.format import format_count, format_names
from graphshare.verification.compare import EXACT, compare_values

ModelContent = Callable[[], tuple[bytes, str]]
"""Returns the bytes of a model and the directory of its external data."""


class WholeModel(SessionPart):
    """A whole model in a session of onnxruntime, as ``read`` gives its bytes: no node is left out, and none is moved."""

    def __init__(self, model: Checkpoint, read: ModelContent) -> None:
        self.graph, self.where, self._params, self._read = model.graph, model.where, model.parameter_file, read
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
    """

    def read_source() -> tuple[bytes, str]:
        return encode_for_session(model.graph, model.parameter_file)

    try:
        source = WholeModel(model, read_source)
        drawn = draw_values(source, {}, {}, seed=0)
        wanted = source.run(drawn.values) if drawn.outputs is None else drawn.outputs
    except GraphshareError as error:
        if isinstance(error, MemoryLimitError) and chosen_memory() is not None:
            raise
        return f"not computed: {error.faults[0].message}"
    hint = "nothing was written; please report it"
    try:
        values = WholeModel(model, read).run(drawn.values)
    except GraphshareError as error:
        message = f"cannot be computed as its source can: {error.faults[0].message}"
        raise DisprovedError(Fault(message, where=where, hint=hint)) from None
    names = [output_name(head) for head in model.graph.heads]
    other = [name for name, a, b in zip(names, values, wanted, strict=True) if not compare_values(a, b, EXACT).identical]
    if not other:
        return f"{format_count(len(names), 'output')} equal bit for bit"
    again = WholeModel(model, read_source).run(drawn.values)
    if any(not compare_values(a, b, EXACT).identical for a, b in zip(again, wanted, strict=True)):
        return "not compared: two runs of the model itself differ"
    raise DisprovedError(Fault(f"computes other bits than its source: {format_names(other)}", where=where, hint=hint))
