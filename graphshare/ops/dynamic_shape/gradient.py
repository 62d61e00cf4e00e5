"""Gradients of the operators of family ``dynamic_shape``."""

from __future__ import annotations

from graphshare.ops.gradient import Gradient, no_gradient
from graphshare.ops.unary.gradient import factor_vjp

GRADIENTS = (
    Gradient("_CrossDeviceCopy", factor_vjp(1.0), reads_inputs=False, reads_outputs=False),
    *no_gradient(
        "the result is counted, compared or constant",
        "_npi_bincount",
        "_npi_share_memory",
        "_npi_unique",
        "_npx_constraint_check",
        "_npx_nonzero",
    ),
)
