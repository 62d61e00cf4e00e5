"""Integers of a limited range: limits of the dtypes, rounding, and the shapes of ranges."""

from __future__ import annotations

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Shapes
from graphshare.ops.unification import unify

ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(1 << 31), (1 << 31) - 1)}
WHOLE_RANGES = {"int8": (-127.5, 127.5), "uint8": (0.0, 255.5)}
"""The range of data that is quantized already, where none is calibrated."""


Ranged = tuple[Array, Array, Array]
"""An array of integers and the two ends of its range."""


def range_end(value: object) -> Array:
    """Return an end of a range: float32 of shape ``(1,)``."""
    return np.full(1, value, np.float32)


def reach_of(low: Array, high: Array) -> float:
    """Return the largest absolute value of a range."""
    return max(abs(float(low.ravel()[0])), abs(float(high.ravel()[0])))


def product_range(data: float, data_levels: float, weight: float, weight_levels: float) -> tuple[Array, Array]:
    """Return the range of 32-bit sums of products; the levels are the integers that represent the largest numbers."""
    reach = np.float32(data / data_levels) * np.float32(weight / weight_levels) * np.float32(1 << 31)
    return range_end(-reach), range_end(reach)


def round_to(x: Array, dtype: str) -> Array:
    """Return ``x`` rounded half to even, within the limits of a dtype; NaN becomes the upper one, or 0 in uint8."""
    wide = x.astype(np.float64) if dtype == "int32" else x  # float32 cannot hold the limits of int32
    low, high = ENDS[dtype]
    if dtype == "uint8":
        return np.asarray(np.minimum(np.fmax(np.rint(wide), low), high).astype(dtype))
    return np.asarray(np.maximum(np.fmin(np.rint(wide), high), low).astype(dtype))


def calibration_range(attrs: Attrs) -> tuple[float, float] | None:
    """Return the calibrated range, None unless both ends are known."""
    low, high = attrs["min_calib_range"], attrs["max_calib_range"]
    return None if low is None or high is None else (low, high)


def with_ranges(layer: tuple[Shapes, Shapes], inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Return the inferred shapes of a layer, then ``(1,)`` for the ranges behind its inputs and outputs."""
    ins, outs = layer
    return [*ins, *(unify((1,), x) for x in inputs[len(ins) :])], [*outs, *(unify((1,), x) for x in outputs[len(outs) :])]
