"""Signatures of ``reduction``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use
from graphshare.ops.signature import define

OPERATORS = (
    *define(
        "moments",
        "data",
        "axes:shape?=None; keepdims:bool=False",
        results="output0 output1",
        couples_batch="axis",
    ),
    *define(
        "_np_cumsum(cumsum)",
        "a",
        "axis:int?=None; dtype:{None/float16/float32/float64/int32/int64/int8}=None",
    ),
    *define(
        "_np_max(_np_amax) _np_min(_np_amin)",
        "a",
        "axis:tuple32?=None; keepdims:bool=False; initial:double?=None",
    ),
    *define(
        "_np_prod(_np_product) _np_sum _npi_mean",
        "a",
        "axis:tuple32?=None; dtype:{None/bool/float16/float32/float64/int32/int64/int8}=None; keepdims:bool=False; "
        "initial:double?=None",
    ),
    *define(
        "_npi_argmax _npi_argmin",
        "data",
        "axis:int?=None; keepdims:bool=False",
        registers_inputs=False,
    ),
    *define(
        "argmax argmin",
        "data",
        "axis:int?=None; keepdims:bool=False",
        registers_inputs=False,
        couples_batch="axis",
    ),
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
        "ord:int=2; axis:shape?=None; "
        "out_dtype:{None/float16/float32/float64/int32/int64/int8}=None; keepdims:bool=False",
        registers_inputs=False,
        couples_batch="axis",
    ),
)

_REDUCES = "takes one value of all samples"


def _reduce(use: Use) -> Outcome:
    axes = use.value("axes" if use.signature.name == "moments" else "axis")
    if isinstance(axes, int):
        axes = (axes,)
    axes, at = tuple(axes or ()), use.first
    hit = any(map(at.is_axis, axes))
    if use.value("exclude") is True:
        if not axes or not hit:
            return _REDUCES
        if at.rank is None and min(axes) < 0:
            return "reduces axes whose places are not known"
        return At(at.axis) if use.value("keepdims") else At(at.count_before(axes))
    if not axes or hit:
        return _REDUCES
    if use.value("keepdims"):
        return at
    return at.with_axis(at.axis - at.count_before(axes), -len(axes))


RULES: dict[str, Rule] = dict.fromkeys(
    (
        "sum",
        "mean",
        "prod",
        "nansum",
        "nanprod",
        "max",
        "min",
        "norm",
        "argmax",
        "argmin",
        "moments",
    ),
    _reduce,
)
