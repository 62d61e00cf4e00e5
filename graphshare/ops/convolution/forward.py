"""The forward pass of Convolution, computed by :mod:`graphshare.ops.convolution.correlation`."""

from __future__ import annotations

import numpy as np

from graphshare.ops.convolution.correlation import correlate
from graphshare.ops.convolution.epilogue import Epilogue
from graphshare.ops.kernel import Array, Attrs, Context
from graphshare.ops.windows import is_channels_last, to_compute_dtype, window_of


def convolution(context: Context, attrs: Attrs, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Return the cross-correlation of ``x`` (N, C, spatial) with ``weight`` (num_filter, C / num_group, kernel)."""
    last = is_channels_last(attrs["layout"])
    x, weight, dtype = to_compute_dtype(x), to_compute_dtype(weight), x.dtype
    if last:
        x, weight = np.moveaxis(x, -1, 1), np.moveaxis(weight, -1, 1)
    epilogue = Epilogue(term=None if bias is None else bias.astype(x.dtype, copy=False))
    out = correlate(x, weight, epilogue, window_of(attrs), attrs["num_group"], context.empty)
    if last:
        out = np.moveaxis(out, 1, -1)
    return np.ascontiguousarray(out, dtype=dtype)
