"""Signatures of the operators of family ``matmul``."""

from __future__ import annotations

from graphshare.ops.signature import define

FULLY_CONNECTED = "num_hidden:int[1:]=!; no_bias:bool=False; flatten:bool=True"

OPERATORS = (
    *define(
        "_linalg_gemm(linalg_gemm)",
        "A B C",
        "transpose_a:bool=False; transpose_b:bool=False; alpha:double=1; beta:double=1; axis:int=-2",
    ),
    *define(
        "_linalg_gemm2(linalg_gemm2)", "A B", "transpose_a:bool=False; transpose_b:bool=False; alpha:double=1; axis:int=-2"
    ),
    *define(
        "batch_dot(_npx_batch_dot)",
        "lhs rhs",
        "transpose_a:bool=False; transpose_b:bool=False; forward_stype:{None/csr/default/row_sparse}=None",
        couples_batch="never",
    ),
    *define(
        "dot(_sparse_dot)",
        "lhs rhs",
        "transpose_a:bool=False; transpose_b:bool=False; forward_stype:{None/csr/default/row_sparse}=None",
        couples_batch="always",
    ),
    *define(
        "FullyConnected(_npx_fully_connected,_sparse_FullyConnected)",
        "data weight bias[!no_bias]",
        FULLY_CONNECTED,
        couples_batch="never",
        size_attributes=(("weight", "num_hidden"), ("bias", "num_hidden")),
    ),
    *define("khatri_rao", "arg*num_args", "num_args:int[1:]=!", couples_batch="always"),
    *define("_contrib_div_sqrt_dim", "data", registers_inputs=False, couples_batch="elementwise"),
)
