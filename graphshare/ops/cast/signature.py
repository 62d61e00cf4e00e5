"""Signatures of ``cast``."""

from __future__ import annotations

from graphshare.ops.signature import define, elementwise
from graphshare.ops.slot_rules import outputs_by_attribute

OPERATORS = (
    *elementwise(
        "amp_cast", "data", "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=!"
    ),
    *define(
        "amp_multicast",
        "data_*num_outputs",
        "num_outputs:int=!; cast_narrow:bool=False",
        results=outputs_by_attribute("num_outputs"),
        couples_batch="elementwise",
    ),
    *elementwise(
        "Cast(_npi_cast,_npx_cast,cast)",
        "data",
        "dtype:{bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=!",
    ),
)
