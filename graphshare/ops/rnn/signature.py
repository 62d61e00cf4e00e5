"""Signatures of ``rnn``."""

from __future__ import annotations

from functools import partial

from graphshare.ops.batch_axis import At, Outcome, Rule, Use
from graphshare.ops.signature import define

RECURRENT = (
    "state_size:uint=!; num_layers:uint=!; bidirectional:bool=False; "
    "mode:{gru/lstm/rnn_relu/rnn_tanh}=!; p:float[0:1]=0; "
    "state_outputs:bool=False; projection_size:int?=None; lstm_state_clip_min:double?=None; "
    "lstm_state_clip_max:double?=None; lstm_state_clip_nan:bool=False; use_sequence_length:bool=False"
)

_sequence = partial(define, couples_batch="always", is_operator_property=True)

OPERATORS = (
    *define(
        "RNN(_npx_rnn)",
        "data parameters state state_cell[mode=lstm] sequence_length[use_sequence_length]",
        RECURRENT,
        results="output state_output[state_outputs] statecell_output[state_outputs&mode=lstm]",
        couples_batch="always",
    ),
    *_sequence(
        "SequenceLast SequenceReverse",
        "data sequence_length[use_sequence_length]",
        "use_sequence_length:bool=False; axis:int=0",
    ),
    *_sequence(
        "SequenceMask(_npx_sequence_mask)",
        "data sequence_length[use_sequence_length]",
        "use_sequence_length:bool=False; value:float=0; axis:int=0",
    ),
)


def _rnn(use: Use) -> Outcome:
    names = use.formals_with_samples()
    places = [at for at in use.inputs if at is not None]
    for name, at in zip(names, places, strict=False):
        if name == "parameters":
            return "has a weight that depends on the batch"
        wanted = 0 if name == "sequence_length" else 1
        if at.axis != wanted:
            return f"expects the samples on axis {wanted} of its {name}, but they are on axis {at.axis}"
    if "data" not in names:
        return "has states that depend on the batch, and data that do not"
    return At(1, 3)


def _sequence_rule(use: Use) -> Outcome:
    axis = use.value("axis")
    samples = 1 - (axis or 0)
    data, lengths = use.input(0), use.input(1)
    has_misplaced_lengths = lengths is not None and lengths.axis != 0
    if data is None or data.axis != samples or has_misplaced_lengths:
        return f"expects the samples on axis {samples} and time on axis {1 - samples}"
    return data.with_axis(0, -1) if use.signature.name == "SequenceLast" else data


RULES: dict[str, Rule] = {
    "RNN": _rnn,
    **dict.fromkeys(("SequenceLast", "SequenceMask", "SequenceReverse"), _sequence_rule),
}
