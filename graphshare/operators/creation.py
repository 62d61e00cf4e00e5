"""Arrays from nothing, or from the shape of another."""

from __future__ import annotations

from graphshare.operators.table import define

ARANGE = (
    "start:double=!; stop:double?=None; step:double=1; repeat:int=1; infer_range:bool=False; ctx:string=; "
    "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32"
)

OPERATORS = (
    *define("_arange", "", ARANGE),
    *define(
        "_contrib_arange_like",
        "data",
        "start:double=0; step:double=1; repeat:int=1; ctx:string=; axis:int?=None",
        registers_inputs=False,
    ),
    *define(
        "_eye",
        "",
        "N:int64=!; M:int64=0; k:int64=0; ctx:string=; dtype:{float16/float32/float64/int32/int64/int8/uint8}=float32",
    ),
    *define(
        "_full",
        "",
        "shape:shape=None; ctx:string=; dtype:{bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=float32; "
        "value:double=!",
    ),
    *define(
        "_linspace",
        "",
        "start:double=!; stop:double=!; num:int=!; endpoint:bool=True; ctx:string=; "
        "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32",
    ),
    *define(
        "_ones _zeros",
        "",
        "shape:shape=[]; ctx:string=; dtype:{bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=float32",
    ),
    *define("_zeros_without_dtype", "", "shape:shape=None; ctx:string=; dtype:int=-1"),
    *define("ones_like zeros_like", "data", registers_inputs=False, couples_batch="never"),
    *define("shape_array size_array", "data", registers_inputs=False),
)
