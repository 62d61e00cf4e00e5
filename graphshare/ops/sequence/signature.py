"""Signatures of the operators of family ``sequence``."""

from __future__ import annotations

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
