"""Conversion of dtypes as in C and MXNet; block draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphshare.ops.kernel import Array
from graphshare.ops.limits import require

NO_BFLOAT16 = "bfloat16 is not supported; float32 can represent all of its numbers"


def convert(x: Array, dtype: Any) -> Array:
    """Return ``x`` as ``dtype``: fractions truncated, narrow integers wrapped.

    As on x86, a number outside the range (NaN, infinite, too large) becomes the least int64, for
    narrower dtypes the low bits of the least int32.
    """
    # Only names: comparing a dtype with an unknown name takes as long as a small kernel.
    if isinstance(dtype, str):
        require(dtype != "bfloat16", NO_BFLOAT16)
    wanted = np.dtype(dtype)
    if x.dtype == wanted:
        return x
    with np.errstate(all="ignore"):
        if x.dtype.kind != "f" or wanted.kind not in "iu":
            return x.astype(wanted)
        wide = np.dtype("int64" if wanted.itemsize == 8 else "int32")
        low = np.iinfo(wide).min
        whole = np.trunc(x.astype(np.float64, copy=False))
        # -low is a power of two, exact in float64; the greatest int64 is not.
        return (
            np.where(np.abs(whole) < -float(low), whole, low)
            .astype(wide)
            .astype(wanted, copy=False)
        )


def to_floating(x: Array) -> Array:
    """Return float64 unchanged, all else as float32."""
    return x if x.dtype == np.float64 else x.astype(np.float32, copy=False)


_BLOCK = 1 << 18  # numbers that are drawn at a time: 2 MB of float64


def draw_in_blocks(draw: Callable[[int], Array], shape: Sequence[int], dtype: Any) -> Array:
    """Fill an array from a stream; ``draw(n)`` returns its next ``n`` numbers."""
    result: Array = np.empty(tuple(shape), dtype)
    flat = result.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        part = flat[start : start + _BLOCK]
        part[...] = draw(part.size).astype(dtype, copy=False)
    return result
