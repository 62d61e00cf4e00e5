"""Signatures of ``matmul``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use, require_axes
from graphshare.ops.signature import define, elementwise

FULLY_CONNECTED = "num_hidden:int[1:]=!; no_bias:bool=False; flatten:bool=True"

_DOT = "transpose_a:bool=False; transpose_b:bool=False; forward_stype:{None/csr/default/row_sparse}=None"

OPERATORS = (
    *define(
        "_linalg_gemm(linalg_gemm)",
        "A B C",
        "transpose_a:bool=False; transpose_b:bool=False; alpha:double=1; beta:double=1; axis:int=-2",
    ),
    *define(
        "_linalg_gemm2(linalg_gemm2)",
        "A B",
        "transpose_a:bool=False; transpose_b:bool=False; alpha:double=1; axis:int=-2",
    ),
    *define("batch_dot(_npx_batch_dot)", "lhs rhs", _DOT, couples_batch="never"),
    *define("dot(_sparse_dot)", "lhs rhs", _DOT, couples_batch="always"),
    *define(
        "FullyConnected(_npx_fully_connected,_sparse_FullyConnected)",
        "data weight bias[!no_bias]",
        FULLY_CONNECTED,
        couples_batch="never",
        size_attributes=(("weight", "num_hidden"), ("bias", "num_hidden")),
    ),
    *define("khatri_rao", "arg*num_args", "num_args:int[1:]=!", couples_batch="always"),
    *elementwise("_contrib_div_sqrt_dim", "data"),
    *define("_contrib_interleaved_matmul_encdec_qk", "queries keys_values", "heads:int=!"),
    *define("_contrib_interleaved_matmul_encdec_valatt", "keys_values attention", "heads:int=!"),
    *define("_contrib_interleaved_matmul_selfatt_qk", "queries_keys_values", "heads:int=!"),
    *define(
        "_contrib_interleaved_matmul_selfatt_valatt", "queries_keys_values attention", "heads:int=!"
    ),
)


def _fully_connected(use: Use) -> Outcome:
    if any(at is not None for at in use.inputs[1:]):
        return "has a weight that depends on the batch"
    if use.value("flatten") is False:
        return use.first
    if use.first.axis:
        return f"takes axis 0 for the batch axis, which is axis {use.first.axis}"
    return At(0, 2)


def _dot(use: Use) -> Outcome:
    lhs, rhs = use.input(0), use.input(1)
    if rhs is not None or use.value("transpose_a"):
        return "sums over the batch axis"
    if lhs is None or lhs.axis:
        return "sums over the batch axis"
    return At(0)


RULES: dict[str, Rule] = {
    "FullyConnected": _fully_connected,
    "dot": _dot,
    # Projections are (length, batch, width), scores (batch * heads, queries, keys).
    "_contrib_interleaved_matmul_selfatt_qk": require_axes(1, out=At(0, 3)),
    "_contrib_interleaved_matmul_selfatt_valatt": require_axes(1, 0, out=At(1, 3)),
    "_contrib_interleaved_matmul_encdec_qk": require_axes(1, 1, out=At(0, 3)),
    "_contrib_interleaved_matmul_encdec_valatt": require_axes(1, 0, out=At(1, 3)),
}
