"""Signatures of ``linear_algebra``."""

from __future__ import annotations

from graphshare.ops.signature import define

NO_KERNEL = "MXNet supports it on GPUs only"

OPERATORS = (
    *define(
        "_contrib_count_sketch",
        "data h s",
        "out_dim:int=!; processing_batch_size:int=32",
        is_operator_property=True,
        no_kernel=NO_KERNEL,
    ),
    *define(
        "_contrib_fft _contrib_ifft",
        "data",
        "compute_size:int=128",
        is_operator_property=True,
        no_kernel=NO_KERNEL,
    ),
    *define("_linalg_det(_npi_det,linalg_det)", "A", results="output0 output1 output2", visible=1),
    *define(
        "_linalg_extractdiag(linalg_extractdiag) _linalg_makediag(linalg_makediag)",
        "A",
        "offset:int=0",
    ),
    *define(
        "_linalg_extracttrian(linalg_extracttrian) _linalg_maketrian(linalg_maketrian)",
        "A",
        "offset:int=0; lower:bool=True",
    ),
    *define("_linalg_gelqf(linalg_gelqf) _linalg_syevd", "A", results="output0 output1"),
    *define("_linalg_inverse(_npi_inv,linalg_inverse) _linalg_sumlogdiag(linalg_sumlogdiag)", "A"),
    *define("_linalg_potrf(linalg_potrf) _linalg_potri(linalg_potri)", "A", "lower:bool=True"),
    *define(
        "_linalg_slogdet(_npi_slogdet,linalg_slogdet)",
        "A",
        results="output0 output1 output2 output3",
        visible=2,
    ),
    *define("_linalg_syrk(linalg_syrk)", "A", "transpose:bool=False; alpha:double=1"),
    *define(
        "_linalg_trmm(linalg_trmm) _linalg_trsm(linalg_trsm)",
        "A B",
        "transpose:bool=False; rightside:bool=False; lower:bool=True; alpha:double=1",
    ),
    *define("_np_dot", "a b"),
    *define("_npi_cholesky", "A", "lower:bool=True"),
    *define("_npi_eig", "A", results="output0 output1"),
    *define("_npi_eigh", "A", "UPLO:char=L", results="output0 output1"),
    *define("_npi_eigvals", "A"),
    *define("_npi_eigvalsh", "A", "UPLO:char=L"),
    *define(
        "_npi_einsum", "arg*num_args", "num_args:int[1:]=!; subscripts:string=; optimize:int=0"
    ),
    *define("_npi_matmul", "a b", results="out"),
    *define("_npi_pinv", "A rcond", "hermitian:bool=False"),
    *define(
        "_npi_pinv_scalar_rcond", "A", "rcond:double=1.0000000000000001e-15; hermitian:bool=False"
    ),
    *define("_npi_solve", "A B"),
    *define("_npi_svd", "A", results="output0 output1 output2"),
    *define("_npi_tensordot", "a b", "a_axes_summed:tuple32=!; b_axes_summed:tuple32=!"),
    *define("_npi_tensordot_int_axes", "a b", "axes:int=!"),
    *define("_npi_tensorinv", "a", "ind:int=2"),
    *define("_npi_tensorsolve", "a b", "a_axes:tuple32=[]"),
)
