"""Signatures and batch-axis rules of the operators of family ``sequence``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use
from graphshare.ops.signature import define

OPERATORS = (
    *define(
        "SequenceLast SequenceReverse",
        "data sequence_length[use_sequence_length]",
        "use_sequence_length:bool=False; axis:int=0",
        couples_batch="always",
        is_operator_property=True,
    ),
    *define(
        "SequenceMask(_npx_sequence_mask)",
        "data sequence_length[use_sequence_length]",
        "use_sequence_length:bool=False; value:float=0; axis:int=0",
        couples_batch="always",
        is_operator_property=True,
    ),
)


def _sequence(use: Use) -> Outcome:
    axis = use.value("axis")
    samples = 1 - (axis or 0)
    data, lengths = use.input(0), use.input(1)
    if data is None or data.axis != samples or (lengths is not None and lengths.axis):
        return f"takes axis {samples} for the samples and axis {1 - samples} for time"
    return data.with_axis(0, -1) if use.signature.name == "SequenceLast" else data


RULES: dict[str, Rule] = {
    **dict.fromkeys(("SequenceLast", "SequenceMask", "SequenceReverse"), _sequence),
}
