"""Two arrays held against each other: how far apart they are, and which tolerance would have passed.

Decided here: NaN equals NaN, an infinity equals one of the same sign, arrays without elements are equal; shapes and types must
be the same, nothing is broadcast. A value passes when ``abs(a - b) <= atol + rtol * abs(b)``, ``b`` being the reference's;
integers and booleans pass only when equal, unless a tolerance is at least 1.
"""

from __future__ import annotations

import msgspec
import numpy as np

from graphshare.ops.kernel import Array


class Comparison(msgspec.Struct, frozen=True):
    """How two arrays compare. ``max_abs`` and ``max_rel`` are the tolerances that would have passed, each by itself.

    Both are infinite where NaN, infinities, shapes or types differ; ``reason`` tells which. ``identical`` means bit for bit.
    """

    equal: bool
    identical: bool
    max_abs: float
    max_rel: float
    reason: str = ""

    def __bool__(self) -> bool:
        return self.equal


_APART = float("inf")


def compare(got: Array, reference: Array, *, atol: float, rtol: float) -> Comparison:
    """``got`` against ``reference``."""
    if got.shape != reference.shape:
        return Comparison(False, False, _APART, _APART, f"shapes {got.shape} and {reference.shape}")
    if got.dtype != reference.dtype:
        return Comparison(False, False, _APART, _APART, f"types {got.dtype} and {reference.dtype}")
    if got.tobytes() == reference.tobytes():
        return Comparison(True, True, 0.0, 0.0)
    wide = "float64" if got.dtype.kind == "f" else "int64" if got.dtype.kind in "iu" else "int8"
    a, b = got.astype(wide), reference.astype(wide)
    usual = np.isfinite(a) & np.isfinite(b)
    odd = ~usual
    if not np.array_equal(a[odd], b[odd], equal_nan=got.dtype.kind == "f"):
        return Comparison(False, False, _APART, _APART, "NaN or infinities in different places")
    distance = np.abs(a[usual] - b[usual]).astype("float64")
    size = np.abs(b[usual]).astype("float64")
    if not distance.size:
        return Comparison(True, False, 0.0, 0.0)
    apart = distance > 0
    with np.errstate(divide="ignore"):
        relative = distance[apart] / size[apart]
    equal = bool((distance <= atol + rtol * size).all())
    max_rel = float(relative.max()) if relative.size else 0.0
    return Comparison(equal, False, float(distance.max()), max_rel, "" if equal else "values differ")


def largest(array: Array) -> float:
    """The largest finite size in an array of floats; 0 for other types, which must be equal."""
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0
