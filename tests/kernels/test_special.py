"""Functions that numpy lacks, against the standard library and against themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphshare.ops import special_functions as special
from graphshare.ops.conversion import convert
from graphshare.ops.kernel import Context
from graphshare.ops.registry import find_kernel, lookup
from graphshare.ops.unary.kernel import digamma


@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-14), ("float32", 3e-7)])
def test_erf_is_that_of_the_standard_library(dtype: str, limit: float) -> None:
    x = np.concatenate([np.linspace(-7, 7, 20001), 10.0 ** np.linspace(-12, 1, 100)]).astype(dtype)
    wanted = np.array([math.erf(v) for v in x.astype(np.float64)])
    got = special.erf(x)
    assert got.dtype == x.dtype
    assert np.all(np.abs(got - wanted) <= limit * np.abs(wanted))
    assert special.erf(np.array([np.inf, -np.inf], dtype)).tolist() == [1, -1]
    assert np.isnan(special.erf(np.array([np.nan], dtype))).all()


def test_erf_polynomials_of_any_degree_interpolate() -> None:
    """The degrees have a margin, which hides a term that is left out; those of low degrees have none."""
    inner, outer = special.erf_polynomials(4, 6)
    x, far = np.linspace(0, 1, 101), np.linspace(1, 6, 101)
    wanted = np.array([math.erf(v) / v if v else 2 / math.sqrt(math.pi) for v in x])
    assert np.abs(special._polynomial(inner, 2 * x * x - 1) - wanted).max() < 2e-6
    wanted = np.array([math.exp(v * v) * math.erfc(v) for v in far])
    assert np.abs(special._polynomial(outer, special.outer_argument(far)) - wanted).max() < 2e-6


def test_erfinv_leads_back() -> None:
    y = np.concatenate(
        [
            np.linspace(-1, 1, 10001)[1:-1],
            1 - 10.0 ** np.linspace(-15, -2, 50),
            10.0 ** np.linspace(-300, -1, 50),
        ]
    )
    x = special.erfinv(y)
    assert np.all(np.abs(np.array([math.erf(v) for v in x]) - y) <= 4e-15)
    assert special.erfinv(np.array([1.0, -1.0, 0.0])).tolist() == [np.inf, -np.inf, 0]
    assert np.isnan(special.erfinv(np.array([1.5, np.nan]))).all()


def test_gamma_at_its_edges() -> None:
    assert special.gamma(np.array([5.0, 0.0, -0.0, 200.0])).tolist() == [
        24,
        np.inf,
        -np.inf,
        np.inf,
    ]
    assert np.isnan(special.gamma(np.array([-1.0, -np.inf, np.nan]))).all()
    assert special.gammaln(np.array([1.0, 0.0, -2.0, np.inf])).tolist() == [
        0,
        np.inf,
        np.inf,
        np.inf,
    ]
    assert special.gamma(np.zeros((0, 2))).shape == (0, 2)


def test_conversion_cuts_off_and_wraps() -> None:
    x = np.array([-3.7, 300.5, 1e10, np.nan, np.inf])
    assert convert(x, "uint8").tolist() == [253, 44, 0, 0, 0]
    assert convert(x, "int32").tolist() == [-3, 300, -(2**31), -(2**31), -(2**31)]
    assert convert(x, "int64").tolist() == [-3, 300, 10**10, -(2**63), -(2**63)]
    assert convert(x, "float64") is x


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_power_of_a_half_is_that_of_c(dtype: str) -> None:
    kernel, signature = find_kernel("_power_scalar"), lookup("_power_scalar")
    assert kernel is not None
    assert signature is not None
    attrs, _ = signature.parse({"scalar": "0.5", "is_int": "0"})
    x = np.array([-np.inf, -0.0, 4.0, -1.0, np.inf], dtype)
    got = kernel.forward(Context(reusable=(True,)), attrs, x)
    # As MXNet 1.9.1 on this x
    assert np.array_equal(got, np.array([np.inf, 0, 2, np.nan, np.inf], dtype), equal_nan=True)
    assert not np.signbit(got[1])


def test_digamma_on_both_sides_of_0() -> None:
    with np.errstate(divide="ignore"):
        found = digamma(np.array([-1.3, -0.25, 0.5, 1.0, 9.0, 0.0, -3.0]))
    wanted = [
        2.8825405488661673,
        2.9141391202135276,
        -1.9635100260214235,
        -0.5772156649015329,
        2.14064147795561,
    ]
    assert found == pytest.approx([*wanted, np.inf, np.inf], rel=1e-11)
