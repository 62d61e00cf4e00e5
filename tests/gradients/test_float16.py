"""Gradients of float16 are those of float64, rounded: squares and quotients on the way do not leave
the range of float16.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.elementwise import Tolerance, describe_mismatch
from tests.gradients.one_operator import gradients_of
from tests.kernels.cases.magnitudes import SIZES

ROUNDED = Tolerance(2.0**-20, 4e-3)
"""A slope and its product with the output's gradient are rounded; beside 0 to multiples of 2**-24."""
ACTIVATIONS = [("Activation", {"act_type": "softsign"}), ("softsign", {})]
SLOPES = [(op, {}) for op in ("arcsinh", "arctan", "expm1", "reciprocal", "erf", "sigmoid")]
NUMBERS = [
    ("_rdiv_scalar", {"scalar": "2.5"}),
    ("_hypot_scalar", {"scalar": "0.3"}),
    ("_power_scalar", {"scalar": "0"}),
]
OF_TWO = [(op, {}) for op in ("elemwise_div", "_hypot", "broadcast_div", "broadcast_hypot")]


@pytest.mark.parametrize(("op", "attrs"), [*ACTIVATIONS, *SLOPES, *NUMBERS, *OF_TWO])
def test_a_gradient_of_float16_is_that_of_float64(op: str, attrs: dict[str, str]) -> None:
    x = np.array(
        [size for size in SIZES if abs(size) > 1e-2 and (op != "expm1" or size < 10)], np.float16
    )
    if (op, attrs) in OF_TWO:
        x = x[(np.abs(x) > 0.1) & (np.abs(x) < 310)]  # beyond, slopes are infinite in float16
    inputs = [x, np.roll(x, 7)] if (op, attrs) in OF_TWO else [x]
    case = {"op": op, "attrs": attrs}
    with np.errstate(all="ignore"):
        got = gradients_of(case, inputs, 1, 0)
        exact = gradients_of(case, [a.astype(np.float64) for a in inputs], 1, 0)
        for place, gradient in exact.items():
            expected = np.asarray(gradient).astype(np.float16)
            mismatch = describe_mismatch(got[place], expected, ROUNDED)
            assert mismatch is None, f"input {place}: {mismatch}"
