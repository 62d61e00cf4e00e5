"""Recurrent networks, sequences and attention."""

from __future__ import annotations

from graphshare.operators.table import define

RECURRENT = (
    "state_size:uint=!; num_layers:uint=!; bidirectional:bool=False; mode:{gru/lstm/rnn_relu/rnn_tanh}=!; p:float[0:1]=0; "
    "state_outputs:bool=False; projection_size:int?=None; lstm_state_clip_min:double?=None; "
    "lstm_state_clip_max:double?=None; lstm_state_clip_nan:bool=False; use_sequence_length:bool=False"
)

OPERATORS = (
    *define("_contrib_div_sqrt_dim", "data", registers_inputs=False, couples_batch="never"),
    *define("_contrib_interleaved_matmul_encdec_qk", "queries keys_values", "heads:int=!"),
    *define("_contrib_interleaved_matmul_encdec_valatt", "keys_values attention", "heads:int=!"),
    *define("_contrib_interleaved_matmul_selfatt_qk", "queries_keys_values", "heads:int=!"),
    *define("_contrib_interleaved_matmul_selfatt_valatt", "queries_keys_values attention", "heads:int=!"),
    *define("_rnn_param_concat", "arg*num_args", "num_args:int[1:]=!; dim:int=1"),
    *define(
        "RNN",
        "data parameters state state_cell[mode=lstm] sequence_length[use_sequence_length]",
        RECURRENT,
        results="output state_output[state_outputs] statecell_output[state_outputs&mode=lstm]",
        couples_batch="always",
    ),
    *define(
        "SequenceLast SequenceReverse",
        "data sequence_length[use_sequence_length]",
        "use_sequence_length:bool=False; axis:int=0",
        couples_batch="always",
    ),
    *define(
        "SequenceMask",
        "data sequence_length[use_sequence_length]",
        "use_sequence_length:bool=False; value:float=0; axis:int=0",
        couples_batch="always",
    ),
)
