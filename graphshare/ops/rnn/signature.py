"""Signatures of the operators of family ``rnn``."""

from __future__ import annotations

from graphshare.ops.signature import define

RECURRENT = (
    "state_size:uint=!; num_layers:uint=!; bidirectional:bool=False; mode:{gru/lstm/rnn_relu/rnn_tanh}=!; p:float[0:1]=0; "
    "state_outputs:bool=False; projection_size:int?=None; lstm_state_clip_min:double?=None; "
    "lstm_state_clip_max:double?=None; lstm_state_clip_nan:bool=False; use_sequence_length:bool=False"
)

OPERATORS = (
    *define(
        "RNN(_npx_rnn)",
        "data parameters state state_cell[mode=lstm] sequence_length[use_sequence_length]",
        RECURRENT,
        results="output state_output[state_outputs] statecell_output[state_outputs&mode=lstm]",
        couples_batch="always",
    ),
)
