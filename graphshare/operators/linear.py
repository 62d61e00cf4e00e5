"""Products and linear algebra."""

from __future__ import annotations

from graphshare.operators.table import define

FULLY_CONNECTED = "num_hidden:int[1:]=!; no_bias:bool=False; flatten:bool=True"

OPERATORS = (
    *define("_contrib_fft _contrib_ifft", "data", "compute_size:int=128"),
    *define("_linalg_det", "A", results="output0 output1 output2", visible=1),
    *define("_linalg_extractdiag _linalg_makediag", "A", "offset:int=0"),
    *define("_linalg_extracttrian _linalg_maketrian", "A", "offset:int=0; lower:bool=True"),
    *define("_linalg_gelqf _linalg_syevd", "A", results="output0 output1"),
    *define(
        "_linalg_gemm",
        "A B C",
        "transpose_a:bool=False; transpose_b:bool=False; alpha:double=1; beta:double=1; axis:int=-2",
    ),
    *define("_linalg_gemm2", "A B", "transpose_a:bool=False; transpose_b:bool=False; alpha:double=1; axis:int=-2"),
    *define("_linalg_inverse _linalg_sumlogdiag", "A"),
    *define("_linalg_potrf _linalg_potri", "A", "lower:bool=True"),
    *define("_linalg_slogdet", "A", results="output0 output1 output2 output3", visible=2),
    *define("_linalg_syrk", "A", "transpose:bool=False; alpha:double=1"),
    *define(
        "_linalg_trmm _linalg_trsm",
        "A B",
        "transpose:bool=False; rightside:bool=False; lower:bool=True; alpha:double=1",
    ),
    *define(
        "batch_dot",
        "lhs rhs",
        "transpose_a:bool=False; transpose_b:bool=False; forward_stype:{None/csr/default/row_sparse}=None",
        couples_batch="never",
    ),
    *define(
        "dot",
        "lhs rhs",
        "transpose_a:bool=False; transpose_b:bool=False; forward_stype:{None/csr/default/row_sparse}=None",
        couples_batch="always",
    ),
    *define("FullyConnected", "data weight bias[!no_bias]", FULLY_CONNECTED, couples_batch="never"),
    *define("khatri_rao", "arg*num_args", "num_args:int[1:]=!", couples_batch="always"),
)
