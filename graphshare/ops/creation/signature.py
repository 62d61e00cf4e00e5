"""Signatures and batch-axis rules of the operators of family ``creation``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use
from graphshare.ops.signature import define

ARANGE = (
    "start:double=!; stop:double?=None; step:double=1; repeat:int=1; infer_range:bool=False; ctx:string=; "
    "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32"
)

OPERATORS = (
    *define("_arange", "", ARANGE),
    *define(
        "_contrib_arange_like(_npx_arange_like)",
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
        "_full(_npi_full)",
        "",
        "shape:shape=None; ctx:string=; dtype:{bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=float32; "
        "value:double=!",
    ),
    *define(
        "_linspace(_npi_linspace)",
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
    *define("_npi_arange", "", ARANGE),
    *define(
        "_npi_blackman _npi_hamming _npi_hanning",
        "",
        "M:int64?=None; ctx:string=; dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32",
    ),
    *define("_npi_diag_indices_from", "data"),
    *define(
        "_npi_eye",
        "",
        "N:int64=!; M:int64?=None; k:int64=0; ctx:string=; "
        "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32",
    ),
    *define(
        "_npi_full_like",
        "a",
        "fill_value:double=!; ctx:string=; dtype:{None/bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=None",
    ),
    *define(
        "_npi_identity _npi_ones _npi_zeros",
        "",
        "shape:shape=[]; ctx:string=; dtype:{bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=float32",
    ),
    *define(
        "_npi_indices",
        "",
        "dimensions:shape=!; dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=int32; ctx:string=",
    ),
    *define(
        "_npi_logspace",
        "",
        "start:double=!; stop:double=!; num:int=!; endpoint:bool=True; base:double=10; ctx:string=; "
        "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32",
        couples_batch="elementwise",
    ),
)


def _arange_like(use: Use) -> Outcome:
    axis = use.value("axis")
    return "counts along the batch axis" if axis is None or use.first.is_axis(axis) else None


RULES: dict[str, Rule] = {
    "_contrib_arange_like": _arange_like,
}
