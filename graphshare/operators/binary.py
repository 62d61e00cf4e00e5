"""Two arrays (or more), element by element."""

from __future__ import annotations

from graphshare.operators.table import define

OPERATORS = (
    *define(
        (
            "_equal _grad_add _greater _greater_equal _hypot _identity_with_attr_like_rhs _lesser _lesser_equal "
            "_logical_and _logical_or _logical_xor _maximum _minimum _mod _not_equal _power broadcast_add broadcast_div "
            "broadcast_equal broadcast_greater broadcast_greater_equal broadcast_hypot broadcast_lesser "
            "broadcast_lesser_equal broadcast_logical_and broadcast_logical_or broadcast_logical_xor broadcast_maximum "
            "broadcast_minimum broadcast_mod broadcast_mul broadcast_not_equal broadcast_power broadcast_sub elemwise_add "
            "elemwise_div elemwise_mul elemwise_sub"
        ),
        "lhs rhs",
        couples_batch="never",
    ),
    *define("add_n", "arg*num_args", "num_args:int[1:]=!", couples_batch="never"),
)
