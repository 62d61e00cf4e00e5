"""Gradients of the numpy interface's operators that stack, split and pad arrays."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, GradientError, TapeEntry, no_gradient
from graphshare.ops.kernel import Array
from graphshare.ops.numpy_concat.kernel import kept_part, pad_widths
from graphshare.ops.permutation import joint_permutation_vjp, permutation_vjp


def pad(entry: TapeEntry, dy: Array) -> Array:
    """Return the part of ``dy`` inside the padding, which must be constant; 0 for what was taken away."""
    if entry.attrs["mode"] != "constant":
        raise GradientError(f"MXNet has no gradient for padding of mode {entry.attrs['mode']}")
    (x,) = entry.inputs
    widths = pad_widths(entry.attrs, x.ndim)
    dx: Array = np.zeros_like(x)
    inside = dx[kept_part(widths, x.shape)]
    inside[...] = dy[tuple(slice(max(0, a), max(0, a) + size) for (a, _), size in zip(widths, inside.shape, strict=True))]
    return dx


GRADIENTS = (
    *(
        Gradient(name, joint_permutation_vjp(name), reads_outputs=False)
        for name in "_npi_stack _npi_vstack _npi_hstack _npi_dstack _npi_column_stack".split()
    ),
    Gradient("_npi_hsplit", permutation_vjp("_npi_hsplit"), reads_outputs=False),
    Gradient("_npi_pad", pad, reads_outputs=False),
    *no_gradient(
        "MXNet has no gradient of it",
        *"_npi_delete _npi_insert_scalar _npi_insert_slice _npi_insert_tensor".split(),
        is_zero=False,
    ),
)
