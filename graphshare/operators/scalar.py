"""One array and one number."""

from __future__ import annotations

from graphshare.operators.table import define

SCALAR = "scalar:double=1; is_int:bool=True"

OPERATORS = (
    *define(
        (
            "_div_scalar _equal_scalar _greater_equal_scalar _greater_scalar _hypot_scalar _lesser_equal_scalar "
            "_lesser_scalar _logical_and_scalar _logical_or_scalar _logical_xor_scalar _maximum_scalar _minimum_scalar "
            "_minus_scalar _mod_scalar _mul_scalar _not_equal_scalar _npi_add_scalar _npi_arctan2_scalar "
            "_npi_bitwise_and_scalar _npi_bitwise_or_scalar _npi_bitwise_xor_scalar _npi_copysign_scalar _npi_lcm_scalar "
            "_npi_ldexp_scalar _npi_mod_scalar _npi_multiply_scalar _npi_power_scalar _npi_rarctan2_scalar "
            "_npi_rcopysign_scalar _npi_rldexp_scalar _npi_rmod_scalar _npi_rpower_scalar _npi_rsubtract_scalar "
            "_npi_rtrue_divide_scalar _npi_subtract_scalar _npi_true_divide_scalar _plus_scalar _power_scalar "
            "_rdiv_scalar _rminus_scalar _rmod_scalar _rpower_scalar"
        ),
        "data",
        SCALAR,
        registers_inputs=False,
        couples_batch="never",
    ),
    *define(
        (
            "_npi_equal_scalar _npi_greater_equal_scalar _npi_greater_scalar _npi_less_equal_scalar _npi_less_scalar "
            "_npi_not_equal_scalar"
        ),
        "data",
        SCALAR,
        couples_batch="never",
    ),
)
