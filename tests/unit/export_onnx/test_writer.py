"""The bytes of arrays in a written model."""

import numpy as np

from graphshare.export_onnx.writer import encode_array

_HARD = (
    0,
    1,
    0x7FFF,
    0x8000,
    0x8001,
    0x18000,
    0x7F7F7FFF,
    0x7F7F8000,
    0x7F800000,
    0x7F800001,
    0x7FBFFFFF,
    0x7FFFFFFF,
)


def test_bfloat16_is_the_nearest_number_and_stays_nan() -> None:
    bits = np.array([sign | bits for sign in (0, 1 << 31) for bits in _HARD], np.uint32)
    bits = np.concatenate([bits, np.random.default_rng(0).integers(0, 1 << 32, 10_000, np.uint32)])
    values = bits.view(np.float32)
    halves = np.frombuffer(encode_array(values, "bfloat16"), "<u2").astype(np.uint32)
    assert np.isnan((halves << 16).view(np.float32)[np.isnan(values)]).all()
    assert np.isnan(values).sum() > 20
    # The upper half of a NaN, made quiet.
    assert np.array_equal(halves[np.isnan(values)], (bits >> 16 | 0x40)[np.isnan(values)])

    def widen(halves: np.ndarray) -> np.ndarray:
        """Return numbers as float64, in which the distances below are exact; infinity as the number
        that would follow.
        """
        numbers = (halves << 16).view(np.float32).astype(np.float64)
        return np.where(np.isinf(numbers), np.copysign(2.0**128, numbers), numbers)

    known = np.isfinite(values)
    exact, got = values[known].astype(np.float64), halves[known]
    lower = (bits >> 16)[known]
    below, above = (np.abs(widen(neighbour) - exact) for neighbour in (lower, lower + 1))
    nearest = np.where((below < above) | ((below == above) & (lower % 2 == 0)), lower, lower + 1)
    assert np.array_equal(got, nearest)
    assert np.array_equal((halves << 16)[np.isinf(values)], bits[np.isinf(values)])
