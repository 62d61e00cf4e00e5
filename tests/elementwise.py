"""Whether two arrays agree in every element: ``|got - expected| <= atol + rtol * |expected|``.

One difference divided by the largest value would hide a wrong small entry beside a large one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Tolerance(NamedTuple):
    """The absolute and the relative part of the difference that an element may have."""

    atol: float
    rtol: float


EXACT = Tolerance(0.0, 0.0)
TOLERANCE = {
    "float64": Tolerance(1e-12, 1e-9),
    "float32": Tolerance(1e-8, 1e-5),
    "float16": Tolerance(2e-6, 2e-3),
}
"""By dtype.

The absolute part is a thousandth of the relative one: entries below 0.001 are compared as if they
were 0.001.
"""


def tolerance_of_sums(expected: Any, dtype: str, *, rtol: float, least: float) -> Tolerance:
    """Return the tolerance of results whose terms are not known: the absolute part is 6 eps of the
    largest, ``least`` at least.

    Partial sums are about as large as the largest result, so that is what rounding leaves where the
    terms of another cancel. ``dtype`` is the narrowest that was computed in.
    """
    largest = np.abs(np.where(np.isfinite(expected), expected, 0).astype(np.float64)).max(initial=0)
    return Tolerance(max(least, 6 * float(np.finfo(dtype).eps) * float(largest)), rtol)


def describe_mismatch(
    got: Any, expected: Any, tolerance: Tolerance | None = None, *, zero_signs: bool = False
) -> str | None:
    """Return how the arrays differ in the worst element, or None if they agree.

    Shape and dtype must be equal, NaN and infinities must be in the same places; integers and booleans must be equal.
    ``tolerance`` defaults to that of the dtype. With ``zero_signs`` 0.0 and -0.0 differ.
    """
    got, expected = np.asarray(got), np.asarray(expected)
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        return f"{got.dtype} {got.shape} instead of {expected.dtype} {expected.shape}"
    if expected.dtype.kind != "f":
        wrong = got != expected
        return _describe(got, expected, wrong, np.argmax(wrong)) if wrong.any() else None
    a, b = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(b)
    special = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if zero_signs:
        special |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    if special.any():
        return _describe(got, expected, special, np.argmax(special))
    atol, rtol = tolerance or TOLERANCE[str(expected.dtype)]
    with np.errstate(all="ignore"):
        excess = np.where(finite, np.abs(a - b) - (atol + rtol * np.abs(b)), -1.0)
    wrong = ~(excess <= 0)
    return (
        _describe(got, expected, wrong, np.argmax(np.where(wrong, excess, -np.inf)))
        if wrong.any()
        else None
    )


def _describe(got: Any, expected: Any, wrong: Any, place: Any) -> str:
    index = tuple(int(i) for i in np.unravel_index(place, expected.shape))
    worst = f"{got[index]!r} instead of {expected[index]!r} at {index}"
    return f"{int(wrong.sum())} of {wrong.size} elements differ, the worst is {worst}"
