"""From one type to another as C does it, which is what MXNet's casts and its arithmetic on integers come to."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.kernel import Array
from graphshare.ops.limits import require


def convert(x: Array, dtype: Any) -> Array:
    """``x`` as ``dtype``: fractions cut off, narrow integers wrapped.

    A number no integer holds (NaN, infinite, too large) is the least one, as on x86: the least int64 for int64, and of the
    least int32 its low bits for all narrower types.
    """
    require(dtype != "bfloat16", "bfloat16 is not supported")
    wanted = np.dtype(dtype)
    if x.dtype == wanted:
        return x
    with np.errstate(all="ignore"):
        if x.dtype.kind != "f" or wanted.kind not in "iu":
            return x.astype(wanted)
        wide = np.dtype("int64" if wanted.itemsize == 8 else "int32")
        low = np.iinfo(wide).min
        whole = np.trunc(x.astype(np.float64, copy=False))
        fits = (whole >= low) & (whole < -float(low))
        return np.where(fits, whole, low).astype(wide).astype(wanted, copy=False)


def to_floating(x: Array) -> Array:
    """``x`` for arithmetic in floating point: float64 as it is, all else as float32."""
    return x if x.dtype == np.float64 else x.astype(np.float32, copy=False)
