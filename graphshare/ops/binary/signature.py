"""Signatures of ``binary``."""

from __future__ import annotations

from graphshare.ops.signature import define, elementwise

SCALAR = "scalar:double=1; is_int:bool=True"

OPERATORS = (
    *define(
        "_equal(_Equal) _grad_add _greater(_Greater) _greater_equal(_Greater_Equal) _hypot(_Hypot) "
        "_identity_with_attr_like_rhs _lesser(_Lesser) _lesser_equal(_Lesser_Equal) _logical_and(_Logical_And) "
        "_logical_or(_Logical_Or) _logical_xor(_Logical_Xor) _maximum(_Maximum) _minimum(_Minimum) _mod(_Mod) "
        "_not_equal(_Not_Equal) _power(_Power) "
        "broadcast_add(_sparse_broadcast_add,_sparse_broadcast_plus,broadcast_plus) "
        "broadcast_div(_sparse_broadcast_div) broadcast_equal broadcast_greater broadcast_greater_equal "
        "broadcast_hypot broadcast_lesser broadcast_lesser_equal broadcast_logical_and broadcast_logical_or "
        "broadcast_logical_xor broadcast_maximum(_npi_maximum) broadcast_minimum(_npi_minimum) broadcast_mod "
        "broadcast_mul(_sparse_broadcast_mul) broadcast_not_equal broadcast_power "
        "broadcast_sub(_sparse_broadcast_minus,_sparse_broadcast_sub,broadcast_minus) "
        "elemwise_add(_Plus,_add,_plus,_sparse_elemwise_add) elemwise_div(_Div,_div,_sparse_elemwise_div) "
        "elemwise_mul(_Mul,_mul,_sparse_elemwise_mul) elemwise_sub(_Minus,_minus,_sparse_elemwise_sub,_sub)",
        "lhs rhs",
        couples_batch="elementwise",
    ),
    *define(
        "add_n(ElementWiseSum,_sparse_ElementWiseSum,_sparse_add_n)",
        "arg*num_args",
        "num_args:int[1:]=!",
        couples_batch="elementwise",
    ),
    *elementwise(
        "_div_scalar(_DivScalar) _equal_scalar(_EqualScalar) _greater_equal_scalar(_GreaterEqualScalar) "
        "_greater_scalar(_GreaterScalar) _hypot_scalar(_HypotScalar,_npi_hypot_scalar) "
        "_lesser_equal_scalar(_LesserEqualScalar) _lesser_scalar(_LesserScalar) "
        "_logical_and_scalar(_LogicalAndScalar) _logical_or_scalar(_LogicalOrScalar) "
        "_logical_xor_scalar(_LogicalXorScalar) _maximum_scalar(_MaximumScalar,_npi_maximum_scalar) "
        "_minimum_scalar(_MinimumScalar,_npi_minimum_scalar) _minus_scalar(_MinusScalar) _mod_scalar(_ModScalar) "
        "_mul_scalar(_MulScalar) _not_equal_scalar(_NotEqualScalar) _plus_scalar(_PlusScalar) "
        "_power_scalar(_PowerScalar) _rdiv_scalar(_RDivScalar) _rminus_scalar(_RMinusScalar) "
        "_rmod_scalar(_RModScalar) _rpower_scalar(_RPowerScalar)",
        "data",
        SCALAR,
    ),
)
