"""How far apart two trainings of one net are: of every array, what it holds and what was changed of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.training.nets import SLICES

ULP = {"float32": 2.0**-23, "float64": 2.0**-52}
"""What rounding the updated value, once on either side, may make of a number in one step, relative to the number."""

VALUES = {"float32": {1: 1e-4, 10: 1e-3}, "float64": {1: 1e-12, 10: 1e-11}}
"""How far off a number may be after so many steps, relative to the largest of its array."""
CHANGES = {"float32": {1: 1e-5, 10: 1e-4}, "float64": {1: 1e-12, 10: 1e-11}}
"""Likewise relative to the largest change of its array, beyond the rounding of the value itself."""

PRELU = 1e-7
"""In float64 MXNet's PReLU multiplies by its slopes in float32."""


class Apart(NamedTuple):
    """``value`` is relative to the largest value, ``change`` to the largest change, without what rounding explains."""

    value: float
    change: float


def limits(name: str, steps: int, dtype: str) -> Apart:
    """How far off a net may be."""
    if dtype == "float64" and name == "det1":
        return Apart(PRELU, PRELU)
    return Apart(VALUES[dtype][steps], CHANGES[dtype][steps])


def apart(got: Any, wanted: Any, first: Any, *, steps: int, dtype: str) -> Apart:
    """Of a whole array after so many steps from ``first``."""
    ours, theirs, old = (np.asarray(x, "float64") for x in (got, wanted, first))
    return _relative(
        _largest(ours - theirs), _largest(theirs), _largest(theirs - old), steps, dtype
    )


def summaries_apart(got: Any, wanted: Any, *, steps: int) -> Apart:
    """Of an array in float32, by what ``nets.summary`` keeps of it."""
    distance = np.abs(np.asarray(got, "float64") - np.asarray(wanted, "float64"))
    # What is off by r in the mean of squares is off by about r in a slice's sum, and seldom by 4 r.
    off = max(
        _largest(distance[:2]),
        _largest(distance[2 : 2 + SLICES]) / 4,
        _largest(distance[2 + SLICES :]),
    )
    return _relative(off, float(wanted[0]), float(wanted[1]), steps, "float32")


def _largest(values: Any) -> float:
    return float(np.abs(values).max(initial=0))


def _relative(off: float, largest: float, change: float, steps: int, dtype: str) -> Apart:
    if not np.isfinite(off):
        return Apart(np.inf, np.inf)
    beyond = max(0.0, off - steps * ULP[dtype] * largest)
    return Apart(off / max(largest, 1e-30), beyond / max(change, 1e-30))
