"""Signatures of the operators of family ``attention``."""

from __future__ import annotations

from graphshare.ops.signature import define

OPERATORS = (
    *define("_contrib_interleaved_matmul_encdec_qk", "queries keys_values", "heads:int=!"),
    *define("_contrib_interleaved_matmul_encdec_valatt", "keys_values attention", "heads:int=!"),
    *define("_contrib_interleaved_matmul_selfatt_qk", "queries_keys_values", "heads:int=!"),
    *define("_contrib_interleaved_matmul_selfatt_valatt", "queries_keys_values attention", "heads:int=!"),
)
