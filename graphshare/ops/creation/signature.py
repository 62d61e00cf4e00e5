"""Signatures of ``creation``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use
from graphshare.ops.signature import define

_NUMBERS = "ctx:string=; dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32"
_ALL = "ctx:string=; dtype:{bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=float32"
_FILLED = f"shape:shape=[]; {_ALL}"
_SPACED = "start:double=!; stop:double=!; num:int=!; endpoint:bool=True"
ARANGE = f"start:double=!; stop:double?=None; step:double=1; repeat:int=1; infer_range:bool=False; {_NUMBERS}"

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
    *define("_full(_npi_full)", "", f"shape:shape=None; {_ALL}; value:double=!"),
    *define("_linspace(_npi_linspace)", "", f"{_SPACED}; {_NUMBERS}"),
    *define("_ones _zeros", "", _FILLED),
    *define("_zeros_without_dtype", "", "shape:shape=None; ctx:string=; dtype:int=-1"),
    *define("_npi_arange", "", ARANGE),
    *define("_npi_blackman _npi_hamming _npi_hanning", "", f"M:int64?=None; {_NUMBERS}"),
    *define("_npi_diag_indices_from", "data"),
    *define("_npi_eye", "", f"N:int64=!; M:int64?=None; k:int64=0; {_NUMBERS}"),
    *define(
        "_npi_full_like",
        "a",
        "fill_value:double=!; ctx:string=; "
        "dtype:{None/bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=None",
    ),
    *define("_npi_identity _npi_ones _npi_zeros", "", _FILLED),
    *define(
        "_npi_indices",
        "",
        "dimensions:shape=!; dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=int32; ctx:string=",
    ),
    *define(
        "_npi_logspace", "", f"{_SPACED}; base:double=10; {_NUMBERS}", couples_batch="elementwise"
    ),
)


def _arange_like(use: Use) -> Outcome:
    axis = use.value("axis")
    return "counts along the batch axis" if axis is None or use.first.is_axis(axis) else None


RULES: dict[str, Rule] = {
    "_contrib_arange_like": _arange_like,
}
