"""Signatures of ``unary``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, mixing_rule
from graphshare.ops.binary.signature import SCALAR
from graphshare.ops.signature import define, elementwise

# MXNet's name of the identity.
IDENTITY = "_copy"

OPERATORS = (
    *elementwise("hard_sigmoid", "data", "alpha:float=0.200000003; beta:float=0.5"),
    *elementwise("ones_like zeros_like(_sparse_zeros_like)", "data"),
    *define("shape_array(_npx_shape_array) size_array", "data", registers_inputs=False),
    *define("_CrossDeviceCopy", "data"),
    *define(
        "_contrib_quadratic", "data", "a:float=0; b:float=0; c:float=0", couples_batch="elementwise"
    ),
    *elementwise(
        "_contrib_round_ste(_sparse__contrib_round_ste) _contrib_sign_ste(_sparse__contrib_sign_ste) "
        "_copy(identity) _copyto(_npi_copyto) abs(_sparse_abs) arccos(_sparse_arccos) arccosh(_sparse_arccosh) "
        "arcsin(_sparse_arcsin) arcsinh(_sparse_arcsinh) arctan(_sparse_arctan) arctanh(_sparse_arctanh) "
        "cbrt(_sparse_cbrt) ceil(_sparse_ceil) cos(_sparse_cos) cosh(_sparse_cosh) degrees(_sparse_degrees) "
        "erf(_npx_erf) erfinv(_npx_erfinv) exp(_sparse_exp) expm1(_sparse_expm1) fix(_sparse_fix) "
        "floor(_sparse_floor) gamma(_npx_gamma,_sparse_gamma) gammaln(_npx_gammaln,_sparse_gammaln) "
        "log(_sparse_log) log10(_sparse_log10) log1p(_sparse_log1p) log2(_sparse_log2) logical_not "
        "negative(_sparse_negative) radians(_sparse_radians) rcbrt reciprocal rint(_sparse_rint) "
        "round(_sparse_round) rsqrt(_sparse_rsqrt) sign(_sparse_sign) sin(_sparse_sin) sinh(_sparse_sinh) "
        "sqrt(_sparse_sqrt) square(_sparse_square) tan(_sparse_tan) trunc(_sparse_trunc)",
        "data",
    ),
    *elementwise("clip(_npi_clip,_sparse_clip)", "data", "a_min:float=!; a_max:float=!"),
    *define(
        "_contrib_gradientmultiplier", "data", SCALAR, registers_inputs=False, couples_batch="never"
    ),
    *elementwise("smooth_l1(_npx_smooth_l1)", "data", SCALAR),
    *elementwise("BlockGrad(_sparse_stop_gradient,stop_gradient)", "data"),
    *elementwise("make_loss(_sparse_make_loss)", "data", results="loss"),
)

RULES: dict[str, Rule] = {
    "shape_array": mixing_rule("returns the size of the batch"),
    "size_array": mixing_rule("returns the size of the batch"),
}
