"""Signatures and batch-axis rules of the operators of family ``attention``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Rule, require_axes
from graphshare.ops.signature import define

OPERATORS = (
    *define("_contrib_interleaved_matmul_encdec_qk", "queries keys_values", "heads:int=!"),
    *define("_contrib_interleaved_matmul_encdec_valatt", "keys_values attention", "heads:int=!"),
    *define("_contrib_interleaved_matmul_selfatt_qk", "queries_keys_values", "heads:int=!"),
    *define("_contrib_interleaved_matmul_selfatt_valatt", "queries_keys_values attention", "heads:int=!"),
)

RULES: dict[str, Rule] = {
    "_contrib_interleaved_matmul_selfatt_qk": require_axes(1, out=At(0, 3)),
    "_contrib_interleaved_matmul_selfatt_valatt": require_axes(1, 0, out=At(1, 3)),
    "_contrib_interleaved_matmul_encdec_qk": require_axes(1, 1, out=At(0, 3)),
    "_contrib_interleaved_matmul_encdec_valatt": require_axes(1, 0, out=At(1, 3)),
}
