"""Gradients of the operators of family ``sparse``."""

from __future__ import annotations

import numpy as np

from graphshare.ops.binary.gradient import binary_gradient
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.sparse.kernel import find_rows
from graphshare.ops.unary.gradient import factor_vjp


def retain(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradient of the rows that are retained; the indices have none."""
    rows = find_rows(len(dy), entry.inputs[1])
    dx = np.zeros_like(dy)
    dx[rows] = dy[rows]
    return [dx, None]


GRADIENTS = (
    Gradient("_sparse_retain", retain, reads_outputs=False),
    binary_gradient("_scatter_elemwise_div", "div"),
    *(
        Gradient(name, factor_vjp(1.0), reads_inputs=False, reads_outputs=False)
        for name in ("cast_storage", "_scatter_plus_scalar", "_scatter_minus_scalar")
    ),
)
