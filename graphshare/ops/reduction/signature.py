"""Signatures of the operators of family ``reduction``."""

from __future__ import annotations

from graphshare.ops.signature import define

OPERATORS = (
    *define("moments", "data", "axes:shape?=None; keepdims:bool=False", results="output0 output1", couples_batch="axis"),
    *define("_np_cumsum(cumsum)", "a", "axis:int?=None; dtype:{None/float16/float32/float64/int32/int64/int8}=None"),
    *define("_np_max(_np_amax) _np_min(_np_amin)", "a", "axis:tuple32?=None; keepdims:bool=False; initial:double?=None"),
    *define(
        "_np_prod(_np_product) _np_sum _npi_mean",
        "a",
        "axis:tuple32?=None; dtype:{None/bool/float16/float32/float64/int32/int64/int8}=None; keepdims:bool=False; "
        "initial:double?=None",
    ),
    *define("_npi_argmax _npi_argmin", "data", "axis:int?=None; keepdims:bool=False", registers_inputs=False),
    *define("argmax argmin", "data", "axis:int?=None; keepdims:bool=False", registers_inputs=False, couples_batch="axis"),
    *define("argmax_channel", "data", registers_inputs=False, couples_batch="never"),
    *define(
        "max(max_axis) mean(_sparse_mean) min(min_axis) nanprod nansum prod sum(_sparse_sum,sum_axis)",
        "data",
        "axis:shape?=None; keepdims:bool=False; exclude:bool=False",
        registers_inputs=False,
        couples_batch="axis",
    ),
    *define(
        "norm(_sparse_norm)",
        "data",
        "ord:int=2; axis:shape?=None; out_dtype:{None/float16/float32/float64/int32/int64/int8}=None; keepdims:bool=False",
        registers_inputs=False,
        couples_batch="axis",
    ),
)
