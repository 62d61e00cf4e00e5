"""Gradients of the numpy interface's operators that reshape, reorder, or read diagonals."""

from __future__ import annotations

import numpy as np

from graphshare.ops.broadcast.kernel import sum_broadcast
from graphshare.ops.gradient import Gradient, TapeEntry, no_gradient
from graphshare.ops.kernel import Array
from graphshare.ops.limits import refuse_invalid_call
from graphshare.ops.numpy_shape.kernel import clamp_offset
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.reshape.kernel import restore_shape


def rot90_vjp(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` rotated by ``k`` once more, which is MXNet's behaviour; the derivative would rotate by ``-k``."""
    with refuse_invalid_call():
        return np.rot90(dy, entry.attrs["k"], entry.attrs["axes"])


def trace(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` at every element of the diagonal that was summed, zeros elsewhere."""
    dx, attrs = np.zeros_like(entry.inputs[0]), entry.attrs
    matrices = np.moveaxis(dx, (attrs["axis1"], attrs["axis2"]), (-2, -1))  # a view
    offset = clamp_offset(attrs, dx.shape)
    steps = np.arange(np.diagonal(matrices, offset, -2, -1).shape[-1])
    matrices[..., steps + max(0, -offset), steps + max(0, offset)] = dy[..., None]
    return np.asarray(dx)


GRADIENTS = (
    *(
        Gradient(name, restore_shape, reads_outputs=False)
        for name in ("_np_reshape", "_npx_reshape", "_np_squeeze", "_np_copy")
    ),
    *(
        Gradient(name, permutation_vjp(name), reads_outputs=False)
        for name in "diag _np_diag _np_diagflat _np_diagonal _np_roll _np_moveaxis _npi_flip _npi_tril".split()
    ),
    Gradient("_npi_rot90", rot90_vjp, reads_inputs=False, reads_outputs=False),
    Gradient("_npi_broadcast_to", sum_broadcast, reads_outputs=False),
    Gradient("_np_trace", trace, reads_outputs=False),
    *no_gradient("MXNet gives it none", "_np_atleast_1d", "_np_atleast_2d", "_np_atleast_3d"),
)
