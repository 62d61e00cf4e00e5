"""Signatures of ``statistics``."""

from __future__ import annotations

from graphshare.ops.signature import define
from graphshare.ops.slot_rules import inputs_by_flags, number_outputs

_DEVIATION = (
    "axis:tuple32?=None; dtype:{None/float16/float32/float64/int32/int64/int8}=None; ddof:int=0; "
    "keepdims:bool=False"
)
OPERATORS = (
    *define("_npi_share_memory", "a b"),
    *define(
        "_npi_bincount", "data weights[has_weights]", "minlength:int=0; has_weights:bool=False"
    ),
    *define("_npx_constraint_check", "input", "msg:string=Constraint violated."),
    *define("_np_all _np_any(_np_sometrue)", "data", "axis:tuple32?=None; keepdims:bool=False"),
    *define(
        "_npi_average",
        "a weights[weighted]",
        "axis:tuple32?=None; returned:bool=False; weighted:bool=True",
        results=lambda signature, attrs, subgraphs: number_outputs(
            2, 2 if signature.value(attrs, "returned") else 1
        ),
    ),
    *define("_npi_diff", "a", "n:int=1; axis:int=-1"),
    *define(
        "_npi_ediff1d",
        inputs_by_flags("", "to_begin_arr_given", "to_end_arr_given"),
        "to_begin_arr_given:bool=False; to_end_arr_given:bool=False; "
        "to_begin_scalar:double?=None; to_end_scalar:double?=None",
    ),
    *define(
        "_npi_norm",
        "data",
        "ord:double=2; axis:shape?=None; keepdims:bool=False; flag:int=-1",
        results="output0 output1 output2 output3",
        visible=1,
        registers_inputs=False,
    ),
    *define(
        "_npi_percentile",
        "a q[q_scalar=None]",
        "axis:tuple32?=None; interpolation:{higher/linear/lower/midpoint/nearest}=linear; keepdims:bool=False; "
        "q_scalar:double?=None",
    ),
    *define("_npi_std", "a", _DEVIATION, results="std mean", visible=1),
    *define("_npi_var", "a", _DEVIATION, results="var mean", visible=1),
    *define(
        "_contrib_allclose",
        "a b",
        "rtol:float=9.99999975e-06; atol:float=9.99999994e-09; equal_nan:bool=True",
        couples_batch="always",
    ),
    *define(
        "_histogram(_npi_histogram)",
        "data bins[bin_cnt=None]",
        "bin_cnt:int?=None; range:doubles?=None",
        results="output0 output1",
        couples_batch="always",
    ),
)
