"""Signatures of the operators of family ``broadcast``."""

from __future__ import annotations

from graphshare.ops.signature import define

OPERATORS = (
    *define(
        "broadcast_axis(broadcast_axes)", "data", "axis:shape=[]; size:shape=[]", registers_inputs=False, couples_batch="axis"
    ),
    *define("broadcast_like", "lhs rhs", "lhs_axes:shape?=None; rhs_axes:shape?=None", couples_batch="shape"),
    *define("broadcast_to", "data", "shape:shape=[]", registers_inputs=False, couples_batch="shape"),
    *define(
        "Pad(pad)",
        "data",
        "mode:{constant/edge/reflect}=!; pad_width:shape=!; constant_value:double=0",
        couples_batch="never",
        is_operator_property=True,
    ),
    *define("repeat(_np_repeat)", "data", "repeats:int=!; axis:int?=None", couples_batch="axis"),
    *define("tile(_npi_tile)", "data", "reps:tuple32=!", couples_batch="shape"),
)
