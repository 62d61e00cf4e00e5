"""Reductions over axes."""

from __future__ import annotations

from graphshare.operators.table import define

OPERATORS = (
    *define(
        "_contrib_allclose",
        "a b",
        "rtol:float=9.99999975e-06; atol:float=9.99999994e-09; equal_nan:bool=True",
        couples_batch="always",
    ),
    *define(
        "_histogram",
        "data bins[bin_cnt=None]",
        "bin_cnt:int?=None; range:doubles?=None",
        results="output0 output1",
        couples_batch="always",
    ),
    *define("argmax argmin", "data", "axis:int?=None; keepdims:bool=False", registers_inputs=False, couples_batch="axis"),
    *define("argmax_channel", "data", registers_inputs=False, couples_batch="never"),
    *define(
        "max mean min nanprod nansum prod sum",
        "data",
        "axis:shape?=None; keepdims:bool=False; exclude:bool=False",
        registers_inputs=False,
        couples_batch="axis",
    ),
    *define(
        "norm",
        "data",
        "ord:int=2; axis:shape?=None; out_dtype:{None/float16/float32/float64/int32/int64/int8}=None; keepdims:bool=False",
        registers_inputs=False,
        couples_batch="axis",
    ),
)
