"""Signatures of the operators of family ``reshape``."""

from __future__ import annotations

from graphshare.ops.signature import define

OPERATORS = (
    *define("expand_dims(_npi_expand_dims)", "data", "axis:int=!", registers_inputs=False, couples_batch="axis"),
    *define("Flatten(_npx_batch_flatten,flatten)", "data", registers_inputs=False, couples_batch="never"),
    *define(
        "Reshape(reshape)",
        "data",
        "shape:tuple32=[]; reverse:bool=False; target_shape:shape=[]; keep_highest:bool=False",
        registers_inputs=False,
        couples_batch="shape",
    ),
    *define(
        "reshape_like(_npx_reshape_like)",
        "lhs rhs",
        "lhs_begin:int?=None; lhs_end:int?=None; rhs_begin:int?=None; rhs_end:int?=None",
        couples_batch="shape",
    ),
    *define("squeeze", "data", "axis:tuple32?=None", couples_batch="axis"),
)
