"""Gradients of the operators of family ``sparse``."""

from __future__ import annotations

from graphshare.ops.binary.gradient import binary_gradient
from graphshare.ops.gradient import Gradient
from graphshare.ops.unary.gradient import factor_vjp

GRADIENTS = (
    binary_gradient("_scatter_elemwise_div", "div"),
    *(
        Gradient(name, factor_vjp(1.0), reads_inputs=False, reads_outputs=False)
        for name in ("cast_storage", "_scatter_plus_scalar", "_scatter_minus_scalar")
    ),
)
