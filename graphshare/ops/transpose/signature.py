"""Signatures of the operators of family ``transpose``."""

from __future__ import annotations

from graphshare.ops.signature import define

OPERATORS = (
    *define("_np_transpose", "a", "axes:shape=None"),
    *define("depth_to_space space_to_depth", "data", "block_size:int=!", couples_batch="never"),
    *define("reverse(flip)", "data", "axis:tuple32=!", couples_batch="axis"),
    *define(
        "SwapAxis(_npi_swapaxes,swapaxes)", "data", "dim1:int=0; dim2:int=0", couples_batch="axis", is_operator_property=True
    ),
    *define("transpose", "data", "axes:shape=[]", registers_inputs=False, couples_batch="shape"),
)
