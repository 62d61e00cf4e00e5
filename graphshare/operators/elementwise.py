"""One array, element by element."""

from __future__ import annotations

from graphshare.operators.rules import counted
from graphshare.operators.table import define

OPERATORS = (
    *define("_contrib_quadratic", "data", "a:float=0; b:float=0; c:float=0", couples_batch="never"),
    *define(
        (
            "_contrib_round_ste _contrib_sign_ste _copy _copyto abs arccos arccosh arcsin arcsinh arctan arctanh cbrt "
            "ceil cos cosh degrees erf erfinv exp expm1 fix floor gamma gammaln log log10 log1p log2 logical_not negative "
            "radians rcbrt reciprocal rint round rsqrt sign sin sinh sqrt square tan tanh trunc"
        ),
        "data",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define(
        "amp_cast",
        "data",
        "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=!",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define(
        "amp_multicast",
        "data_*num_outputs",
        "num_outputs:int=!; cast_narrow:bool=False",
        results=counted("num_outputs"),
        couples_batch="never",
    ),
    *define(
        "Cast",
        "data",
        "dtype:{bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=!",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define("clip", "data", "a_min:float=!; a_max:float=!", registers_inputs=False, couples_batch="never"),
)
