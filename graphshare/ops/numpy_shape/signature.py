"""Signatures and batch-axis rules of the operators of family ``numpy_shape``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, mixing_rule
from graphshare.ops.signature import define
from graphshare.ops.slot_rules import outputs_by_attribute

OPERATORS = (
    *define(
        "_np_atleast_1d _np_atleast_2d _np_atleast_3d",
        "ary*num_args",
        "num_args:int[1:]=!",
        results=outputs_by_attribute("num_args"),
    ),
    *define("_np_copy", "a"),
    *define("_np_diag _np_diagflat _npi_tril", "data", "k:int=0"),
    *define("_np_diagonal _np_trace", "data", "offset:int=0; axis1:int=0; axis2:int=1"),
    *define("_np_moveaxis", "a", "source:shape=!; destination:shape=!"),
    *define("_np_reshape", "a", "newshape:shape=!; order:string=C"),
    *define("_np_roll", "data", "shift:shape?=None; axis:shape?=None"),
    *define("_np_squeeze", "a", "axis:tuple32?=None"),
    *define("_npi_broadcast_to", "array", "shape:shape=[]"),
    *define("_npi_flip", "data", "axis:tuple32=!"),
    *define("_npi_rot90", "data", "k:int=1; axes:shape?=None"),
    *define("_npx_reshape(_npi_reshape)", "a", "newshape:shape=!; reverse:bool=False; order:string=C"),
    *define("diag", "data", "k:int=0; axis1:int=0; axis2:int=1", couples_batch="shape"),
)

RULES: dict[str, Rule] = {
    "diag": mixing_rule("moves the samples"),
}
