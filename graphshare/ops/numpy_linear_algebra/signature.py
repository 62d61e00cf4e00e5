"""Signatures of the operators of family ``numpy_linear_algebra``."""

from __future__ import annotations

from graphshare.ops.signature import define

OPERATORS = (
    *define("_np_dot", "a b"),
    *define("_npi_cholesky", "A", "lower:bool=True"),
    *define("_npi_eig", "A", results="output0 output1"),
    *define("_npi_eigh", "A", "UPLO:char=L", results="output0 output1"),
    *define("_npi_eigvals", "A"),
    *define("_npi_eigvalsh", "A", "UPLO:char=L"),
    *define("_npi_einsum", "arg*num_args", "num_args:int[1:]=!; subscripts:string=; optimize:int=0"),
    *define("_npi_matmul", "a b", results="out"),
    *define("_npi_pinv", "A rcond", "hermitian:bool=False"),
    *define("_npi_pinv_scalar_rcond", "A", "rcond:double=1.0000000000000001e-15; hermitian:bool=False"),
    *define("_npi_solve", "A B"),
    *define("_npi_svd", "A", results="output0 output1 output2"),
    *define("_npi_tensordot", "a b", "a_axes_summed:tuple32=!; b_axes_summed:tuple32=!"),
    *define("_npi_tensordot_int_axes", "a b", "axes:int=!"),
    *define("_npi_tensorinv", "a", "ind:int=2"),
    *define("_npi_tensorsolve", "a b", "a_axes:tuple32=[]"),
)
