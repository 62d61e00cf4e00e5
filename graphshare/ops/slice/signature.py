"""Signatures of the operators of family ``slice``."""

from __future__ import annotations

from graphshare.ops.signature import define

SLICE = "begin:slice=!; end:slice=!; step:slice=[]"

OPERATORS = (
    *define("_slice_assign(_crop_assign,_npi_slice_assign)", "lhs rhs", SLICE, couples_batch="shape"),
    *define(
        "_slice_assign_scalar(_crop_assign_scalar,_npi_slice_assign_scalar)",
        "data",
        "scalar:double=0; begin:slice=!; end:slice=!; step:slice=[]",
        registers_inputs=False,
        couples_batch="shape",
    ),
    *define("slice(_npi_slice,_npx_slice,_sparse_slice,crop)", "data", SLICE, registers_inputs=False, couples_batch="shape"),
    *define("slice_axis", "data", "axis:int=!; begin:int=!; end:int?=!", registers_inputs=False, couples_batch="axis"),
    *define("slice_like", "data shape_like", "axes:tuple32=[]", couples_batch="shape"),
)
