"""Signatures of ``numpy_elementwise``."""

from __future__ import annotations

from graphshare.ops.binary.signature import SCALAR
from graphshare.ops.signature import define, elementwise

OPERATORS = (
    *elementwise("_npx_relu _npx_sigmoid", "data"),
    *define(
        "_npi_absolute(_npi_abs) _npi_arccos _npi_arccosh _npi_arcsin _npi_arcsinh _npi_arctan _npi_arctanh "
        "_npi_bitwise_not _npi_cbrt _npi_ceil _npi_cos _npi_cosh _npi_degrees _npi_exp _npi_expm1 _npi_fix "
        "_npi_floor _npi_isfinite _npi_isinf _npi_isnan _npi_isneginf _npi_isposinf _npi_log _npi_log10 _npi_log1p "
        "_npi_log2 _npi_logical_not _npi_negative _npi_radians _npi_reciprocal _npi_rint _npi_sign _npi_sin "
        "_npi_sinh _npi_sqrt _npi_square _npi_tan _npi_tanh _npi_trunc",
        "x",
        couples_batch="elementwise",
    ),
    *define(
        "_npi_add _npi_bitwise_and _npi_bitwise_or _npi_bitwise_xor _npi_copysign _npi_equal _npi_greater "
        "_npi_greater_equal _npi_lcm _npi_ldexp _npi_less _npi_less_equal _npi_mod _npi_multiply _npi_not_equal "
        "_npi_power _npi_subtract _npi_true_divide",
        "lhs rhs",
        couples_batch="elementwise",
    ),
    *define("_npi_arctan2 _npi_hypot", "x1 x2", couples_batch="elementwise"),
    *define("_npi_around", "x", "decimals:int=0", couples_batch="elementwise"),
    *define(
        "_npi_nan_to_num",
        "data",
        "copy:bool=True; nan:double=0; posinf:double?=None; neginf:double?=None",
        couples_batch="elementwise",
    ),
    *define("_npi_polyval", "p x", couples_batch="elementwise"),
    *define("_npi_where", "condition x y", couples_batch="elementwise"),
    *define("_npi_where_lscalar", "condition x", "scalar:double=0", couples_batch="elementwise"),
    *define("_npi_where_rscalar", "condition y", "scalar:double=0", couples_batch="elementwise"),
    *define(
        "_npi_where_scalar2", "condition", "x:double=0; y:double=0", couples_batch="elementwise"
    ),
    *elementwise(
        "_npi_add_scalar _npi_arctan2_scalar _npi_bitwise_and_scalar _npi_bitwise_or_scalar "
        "_npi_bitwise_xor_scalar _npi_copysign_scalar _npi_lcm_scalar _npi_ldexp_scalar _npi_mod_scalar "
        "_npi_multiply_scalar _npi_power_scalar _npi_rarctan2_scalar _npi_rcopysign_scalar _npi_rldexp_scalar "
        "_npi_rmod_scalar _npi_rpower_scalar _npi_rsubtract_scalar _npi_rtrue_divide_scalar _npi_subtract_scalar "
        "_npi_true_divide_scalar",
        "data",
        SCALAR,
    ),
    *define(
        "_npi_equal_scalar _npi_greater_equal_scalar _npi_greater_scalar _npi_less_equal_scalar _npi_less_scalar "
        "_npi_not_equal_scalar",
        "data",
        SCALAR,
        couples_batch="elementwise",
    ),
)
